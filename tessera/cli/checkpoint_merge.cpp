// `tessera checkpoint merge`: adds LoRA adapters to the weights that they were trained on.
#include <fmt/format.h>

#include <memory>

#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/outputs.h"
#include "tessera/train/merge_adapters.h"

namespace tessera::cli {

Body declare_checkpoint_merge(Command& command) {
  struct Options {
    std::string path;
    std::string base;
    std::string out;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("PATH", &options->path, "Checkpoint of adapters, or a run directory for its newest checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--base", &options->base, "Checkpoint or run of the other weights (default: the --init of the run)",
              {.paths = Paths::kDirectories});
  command.add("--out", &options->out, "Directory of checkpoints to write to; created if missing",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "The new checkpoint holds complete weights and no optimizer state.\n"
      "  tessera train --init base --lora.rank 16 --data.files mine --run.directory tuned\n"
      "  tessera checkpoint merge tuned --out merged";
  return [options] {
    const train::CheckpointInfo adapters = one_checkpoint(options->path);
    const train::CheckpointInfo base =
        one_checkpoint(options->base.empty() ? train::base_of_adapters(adapters).string() : options->base);
    check_output("checkpoint merge: --out", options->out, {adapters.path.string(), base.path.string()});
    const train::CheckpointInfo made = train::merge_adapters(adapters, base, options->out);
    if (options->json) {
      print_json({{"adapters", to_json(adapters)}, {"base", to_json(base)}, {"to", to_json(made)}});
    } else {
      fmt::print("{}: {} tensors, {}\n", made.path.string(), made.tensors,
                 size_text(made.nbytes, {.is_terminal = true}));
    }
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli
