// `tessera checkpoint`: what a run has saved. The verbs below it are listed here.
#include <fmt/chrono.h>

#include <cstdio>
#include <map>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

struct CheckpointVerb {
  const char* name;
  const char* summary;
  std::function<int()> (*declare)(CLI::App& options);
};

// A new verb is a line here.
constexpr CheckpointVerb kVerbs[] = {
    {"ls", "List the checkpoints of a run", declare_checkpoint_ls},
    {"verify", "Read all of a checkpoint and compare its checksums", declare_checkpoint_verify},
    {"reshard", "Write a checkpoint as other ranks would have written it", declare_checkpoint_reshard},
    {"diff", "Compare the tensors of two checkpoints", declare_checkpoint_diff},
};

std::function<int()> declare(CLI::App& app) {
  auto bodies = std::make_shared<std::map<std::string, std::function<int()>>>();
  for (const CheckpointVerb& verb : kVerbs) {
    CLI::App* options = app.add_subcommand(verb.name, verb.summary)->group("Verbs");
    (*bodies)[verb.name] = verb.declare(*options);
  }
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.footer(
      "PATH is a checkpoint (RUN_DIR/checkpoints/step-000000120), a directory of checkpoints or a run directory; where "
      "one checkpoint is meant, that is the newest of it.\n"
      "  tessera checkpoint ls run\n"
      "  tessera checkpoint verify run/checkpoints/step-000000120\n"
      "  tessera checkpoint reshard run --mesh dp=1,fsdp=2,tp=1 --out for_two\n"
      "  tessera checkpoint diff run other_run");
  return [bodies, &app]() -> int {
    try {
      return bodies->at(app.get_subcommands().front()->get_name())();
    } catch (const Error& error) {  // of a file or of what was asked for: where we noticed does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kCheckpoint({"checkpoint", "List, check, reshard and compare what runs have saved", declare});

bool holds_checkpoints(const std::filesystem::path& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().filename().string().starts_with("step-")) return true;
  }
  return false;
}

}  // namespace

std::filesystem::path checkpoints_directory(const std::string& path) {
  std::error_code error;
  TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(path, error), path, ": is no directory");
  if (holds_checkpoints(path)) return path;
  const std::filesystem::path inside = std::filesystem::path(path) / "checkpoints";
  TESSERA_CHECK_AS(IoError, holds_checkpoints(inside), path,
                   ": holds no checkpoints; they are directories step-N in it, or in its folder 'checkpoints'");
  return inside;
}

train::CheckpointInfo one_checkpoint(const std::string& path) {
  std::error_code error;
  const std::filesystem::path given = std::filesystem::path(path).lexically_normal();
  const bool is_one = given.filename().string().starts_with("step-") ||
                      (!given.has_filename() && given.parent_path().filename().string().starts_with("step-"));
  if (is_one || std::filesystem::exists(given / "index.json", error)) return train::open_checkpoint(path);
  const std::vector<train::CheckpointInfo> all = train::checkpoints_in(checkpoints_directory(path));
  TESSERA_CHECK_AS(IoError, !all.empty(), path,
                   ": none of its checkpoints has an index that can be read; see `tessera checkpoint ls ", path, "`");
  return all.front();
}

nlohmann::ordered_json to_json(const train::CheckpointInfo& info) {
  return {{"path", info.path.string()},
          {"step", info.step},
          {"world_size", info.world_size},
          {"mesh", info.mesh},
          {"nbytes", info.nbytes},
          {"tensors", info.tensors},
          {"written_at_seconds", info.written_at_seconds}};
}

std::string time_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

}  // namespace tessera::cli
