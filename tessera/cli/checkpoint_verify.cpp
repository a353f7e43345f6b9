// `tessera checkpoint verify`: compares every shard of a checkpoint with its checksum.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/verify.h"
#include "tessera/train/progress.h"

namespace tessera::cli {

Body declare_checkpoint_verify(Command& command) {
  struct Options {
    std::string path;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("PATH", &options->path, "Checkpoint, or a run directory for its newest checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Exits 1 if the checkpoint is corrupt, and prints the file and the tensor of each corrupt shard.\n"
      "  tessera checkpoint verify run/checkpoints/step-000000120";
  return [options] {
    train::Progress progress({}, 0, stderr);
    train::PhaseProgress phase(progress, "verifying", "bytes");
    const train::CheckpointVerdict verdict =
        train::verify_checkpoint(meant_checkpoint(options->path), train::CheckDepth::kEverything,
                                 [&](std::uint64_t done, std::uint64_t all) { phase.at(done, all); });
    progress.say("");
    if (options->json) {
      nlohmann::ordered_json faults = nlohmann::ordered_json::array();
      for (const train::CheckpointFault& fault : verdict.faults) {
        faults.push_back({{"file", fault.file}, {"tensor", fault.tensor}, {"what", fault.what}});
      }
      print_json({{"checkpoint", to_json(verdict.info)},
                  {"is_good", verdict.faults.empty()},
                  {"shards", verdict.shards},
                  {"faults", faults}});
    } else if (verdict.faults.empty()) {
      fmt::print("{}: good: {} shards of {} tensors in {} files, {}\n", verdict.info.path.string(), verdict.shards,
                 verdict.info.tensors, verdict.info.world_size, size_text(verdict.info.nbytes, {.is_terminal = true}));
    } else {
      for (const train::CheckpointFault& fault : verdict.faults) fmt::print("{}\n", shown(to_string(fault)));
    }
    if (verdict.faults.empty()) return static_cast<int>(kDone);
    std::fprintf(stderr, "tessera: checkpoint %s is corrupt: %zu faults\n", verdict.info.path.c_str(),
                 verdict.faults.size());
    return static_cast<int>(kFailed);
  };
}

}  // namespace tessera::cli
