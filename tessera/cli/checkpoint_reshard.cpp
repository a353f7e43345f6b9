// `tessera checkpoint reshard`: rewrites a checkpoint for another mesh.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/reshard.h"

namespace tessera::cli {
namespace {

constexpr int kMaxRanks = 1 << 24;  // limit of an index

// Returns the fault in the text of a mesh, or "".
std::string fault_of_mesh(const std::string& text) {
  try {
    (void)layout::Mesh::parse(text);
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

// Returns the path of the new checkpoint.
std::filesystem::path meant_place(const std::string& directory, const train::CheckpointInfo& from) {
  return std::filesystem::path(directory) / fmt::format("step-{:09}", from.step);
}

}  // namespace

Body declare_checkpoint_reshard(Command& command) {
  struct Options {
    std::string path;
    std::string mesh;
    int ranks = 0;
    std::string out;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("PATH", &options->path, "Checkpoint, or a run directory for its newest checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--mesh", &options->mesh, "Target mesh, as in dp=1,fsdp=2,tp=1", {.fault = fault_of_mesh});
  command.add("--ranks", &options->ranks, "Number of ranks of the target mesh, instead of --mesh",
              {.range = Range{1, kMaxRanks}, .excludes = "--mesh"});
  command.add("--out", &options->out, "Directory of checkpoints to write to; created if missing",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "An axis of the target mesh shards the same dimensions as the axis of that name in the checkpoint. Axes that are "
      "new, or had one rank, replicate. Runs load checkpoints of any mesh; use this command for programs that read "
      "other shards, or one file. With --ranks, each axis, from last to first, keeps the largest divisor of its size "
      "that also divides the remaining number of ranks; fsdp takes the rest. A corrupt checkpoint is rejected.\n"
      "  tessera checkpoint reshard run --mesh dp=1,fsdp=2,tp=1 --out for_two\n"
      "  tessera checkpoint reshard run --ranks 1 --out whole";
  return [options] {
    if (options->mesh.empty() && options->ranks == 0) {
      std::fprintf(
          stderr,
          "tessera: checkpoint reshard: --mesh or --ranks is required, as in --mesh dp=1,fsdp=2,tp=1 or --ranks 2\n");
      return static_cast<int>(kUsage);
    }
    const train::CheckpointInfo from = one_checkpoint(options->path);
    const layout::Mesh mesh =
        options->mesh.empty() ? train::mesh_with_ranks(from, options->ranks) : layout::Mesh::parse(options->mesh);
    for (const std::filesystem::path& output : {std::filesystem::path(options->out), meant_place(options->out, from)}) {
      check_output("checkpoint reshard: --out", output.string(), {from.path.string()});
    }
    const train::CheckpointInfo made = train::reshard_checkpoint(from, mesh, options->out);
    if (options->json) {
      print_json({{"from", to_json(from)}, {"to", to_json(made)}});
    } else {
      fmt::print("{}: step {} for {} ranks ({}), {}\n", made.path.string(), made.step, made.world_size, mesh.text(),
                 size_text(made.nbytes, {.is_terminal = true}));
    }
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli
