// `tessera checkpoint ls`: lists the checkpoints of a run, newest first.
#include <charconv>
#include <memory>

#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/verify.h"
#include "tessera/train/progress.h"

namespace tessera::cli {
namespace {

using train::CheckDepth;
using train::CheckpointVerdict;

// Returns the state in one word.
std::string state_of(const CheckpointVerdict& verdict, CheckDepth depth) {
  if (verdict.is_partial) return "partial";
  if (!verdict.faults.empty()) return "damaged";
  return depth == CheckDepth::kEverything ? "good" : "complete";
}

void show_json(const std::vector<CheckpointVerdict>& all, CheckDepth depth) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CheckpointVerdict& each : all) {
    nlohmann::ordered_json row = to_json(each.info);
    row["state"] = state_of(each, depth);
    row["faults"] = nlohmann::ordered_json::array();
    for (const train::CheckpointFault& fault : each.faults) row["faults"].push_back(to_string(fault));
    rows.push_back(std::move(row));
  }
  print_json({{"checkpoints", rows}});
}

void show(const std::vector<CheckpointVerdict>& all, CheckDepth depth) {
  const Style style = stdout_style();
  Table table{{"STEP", "WRITTEN (UTC)", "SIZE", "RANKS", "MESH", "STATE", "PATH"}, {}};
  for (const CheckpointVerdict& each : all) {
    const bool is_known = each.info.written_at_seconds > 0;
    std::string state = state_of(each, depth);
    if (!each.faults.empty() && !each.is_partial) state += ": " + shown(to_string(each.faults.front()));
    table.rows.push_back({std::to_string(each.info.step), is_known ? time_text(each.info.written_at_seconds) : "-",
                          is_known ? size_text(each.info.nbytes, style) : "-",
                          is_known ? std::to_string(each.info.world_size) : "-",
                          each.info.mesh.empty() ? "-" : shown(each.info.mesh), state, each.info.path.string()});
  }
  print_tables({table});
}

// Verifies one checkpoint as the list of its directory shows it. Facts missing from its index come from its name.
CheckpointVerdict one_verdict(const std::string& path, CheckDepth depth, const train::OnProgress& on_progress) {
  CheckpointVerdict verdict = train::verify_checkpoint(path, depth, on_progress);
  std::filesystem::path given = std::filesystem::path(path).lexically_normal();
  if (!given.has_filename()) given = given.parent_path();
  const std::string name = given.filename().string();
  verdict.is_partial = name.ends_with(".partial");
  if (verdict.info.written_at_seconds == 0 && name.starts_with("step-")) {
    std::from_chars(name.data() + 5, name.data() + name.size(), verdict.info.step);
  }
  return verdict;
}

}  // namespace

Body declare_checkpoint_ls(Command& command) {
  struct Options {
    std::string path;
    bool verify = false;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command.add("PATH", &options->path, "Run directory, directory of checkpoints, or one checkpoint",
              {.is_required = true, .paths = Paths::kDirectories});
  command.add("--verify", &options->verify, "Read all files and verify their checksums");
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "STATE: complete (all files exist and have the right sizes), good (with --verify: all checksums match too), "
      "damaged (corrupt, with the reason; a resumed run skips it), partial (incomplete, or still being written).\n"
      "  tessera checkpoint ls run";
  return [options] {
    const CheckDepth depth = options->verify ? CheckDepth::kEverything : CheckDepth::kSizes;
    train::Progress progress({}, 0, stderr);
    train::PhaseProgress phase(progress, "verifying", "bytes");
    const train::OnProgress on_progress = [&](std::uint64_t done, std::uint64_t all) { phase.at(done, all); };
    const auto all = is_checkpoint(options->path)
                         ? std::vector{one_verdict(options->path, depth, on_progress)}
                         : train::list_checkpoints(checkpoints_directory(options->path), depth, on_progress);
    progress.say("");
    options->json ? show_json(all, depth) : show(all, depth);
    return static_cast<int>(kDone);
  };
}

}  // namespace tessera::cli
