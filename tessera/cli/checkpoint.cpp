// `tessera checkpoint`: the saved checkpoints of a run. This file lists its subcommands in declare().
#include <fmt/chrono.h>

#include <algorithm>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/verb.h"
#include "tessera/train/checkpoint/verify.h"
#include "tessera/train/run.h"

namespace tessera::cli {
namespace {

// Returns the text of an error, with the lines of its list. Names in it are printable and have no line ends.
std::string shown_lines(const std::string& text) {
  constexpr std::string_view kItem = "\n  ";
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(kItem, at), text.size());
    out += (at == 0 ? "" : std::string(kItem)) + shown(text.substr(at, end - at));
    at = end + kItem.size();
  }
  return out;
}

Body declare(Command& command) {
  const Body run_chosen = command.add_commands({
      {"ls", "List the checkpoints of a run", declare_checkpoint_ls},
      {"verify", "Verify all checksums of a checkpoint", declare_checkpoint_verify},
      {"reshard", "Rewrite a checkpoint for another mesh", declare_checkpoint_reshard},
      {"diff", "Compare the tensors of two checkpoints", declare_checkpoint_diff},
      {"import", "Import a model of Hugging Face's transformers", declare_checkpoint_import},
      {"export", "Export a checkpoint for Hugging Face's transformers", declare_checkpoint_export},
      {"merge", "Add LoRA adapters to the weights that they were trained on", declare_checkpoint_merge},
  });
  command.footer =
      "PATH is a checkpoint (RUN_DIR/checkpoints/step-000000120), a directory of checkpoints or a run directory. "
      "Commands that take one checkpoint use the newest one of a directory.\n"
      "  tessera checkpoint ls run\n"
      "  tessera checkpoint verify run/checkpoints/step-000000120\n"
      "  tessera checkpoint reshard run --mesh dp=1,fsdp=2,tp=1 --out for_two\n"
      "  tessera checkpoint diff run other_run\n"
      "  tessera checkpoint import gpt2 -o imported";
  return [run_chosen]() -> int {
    try {
      return run_chosen();
    } catch (const Error& error) {  // concerns a file or an option: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", shown_lines(error.message()).c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kCheckpoint({"checkpoint", "List, verify, reshard, compare, import and export checkpoints",
                                    declare});

bool holds_checkpoints(const std::filesystem::path& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().filename().string().starts_with("step-")) return true;
  }
  return false;
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  std::filesystem::path given = std::filesystem::path(path).lexically_normal();
  if (!given.has_filename()) given = given.parent_path();
  std::error_code error;
  if (std::filesystem::exists(given / "index.json", error)) return true;
  return given.filename().string().starts_with("step-") && !holds_checkpoints(given) &&
         !holds_checkpoints(given / "checkpoints");
}

std::filesystem::path checkpoints_directory(const std::string& path) {
  std::error_code error;
  TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(path, error), path, ": must be a directory");
  if (holds_checkpoints(path)) return path;
  std::filesystem::path inside = std::filesystem::path(path) / "checkpoints";
  TESSERA_CHECK_AS(
      IoError, holds_checkpoints(inside), path,
      ": no checkpoints found; they are directories step-N, in this directory or in its subdirectory 'checkpoints'");
  return inside;
}

std::filesystem::path meant_checkpoint(const std::string& path) {
  if (is_checkpoint(path)) return path;
  const auto all = train::list_checkpoints(checkpoints_directory(path), train::CheckDepth::kSizes);
  const auto newest = std::ranges::find(all, false, &train::CheckpointVerdict::is_partial);
  TESSERA_CHECK_AS(IoError, newest != all.end(), path, ": no complete checkpoint found; see `tessera checkpoint ls ",
                   path, "`");
  return newest->info.path;
}

train::CheckpointInfo one_checkpoint(const std::string& path) { return train::open_checkpoint(meant_checkpoint(path)); }

std::string shown(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return letter == '\n' || letter == '\t'; }, ' ');
  return train::printable(text);
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
