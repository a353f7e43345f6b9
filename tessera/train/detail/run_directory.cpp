#include "tessera/train/detail/run_directory.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/base/regular_file.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/good_checkpoint.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/detail/checkpointing.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/detail/run_signals.h"

namespace tessera::train::detail {
namespace {

// Rank 0 may read much before the first step, and others may still write after the last.
constexpr auto kPatience = std::chrono::minutes(10);
// maximum size of summary.json and config.toml
constexpr std::uint64_t kMaxNbytes = std::uint64_t{16} << 20;
constexpr std::size_t kMaxDepth = 64;  // maximum nesting of summary.json

struct RunCount {
  int runs = 0;
};

std::string time_name() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return std::string(text) + "-" + std::to_string(::getpid());
}

std::filesystem::path chosen(const RunConfig& config) {
  if (!config.directory.empty()) return config.directory;
  const std::string& launcher = current_place().run_dir;
  return launcher.empty() ? std::filesystem::path("runs") / time_name() : std::filesystem::path(launcher);
}

RunAccess access_of(const RunConfig& config) { return config.shared ? RunAccess::kGroup : RunAccess::kPrivate; }

std::filesystem::path make(const Config& config) {
  std::filesystem::path path = std::filesystem::absolute(chosen(config.run)).lexically_normal();
  try {
    make_run_directory(path, access_of(config.run));
  } catch (const IoError& error) {
    TESSERA_THROW(IoError, error.message(), "; use another --run.directory");
  }
  return path;
}

std::shared_ptr<const RunDirectoryLock> lock(const std::filesystem::path& directory, bool is_rank) {
  return std::make_shared<RunDirectoryLock>(directory,
                                            RunDirectoryLockOptions{.option = "--run.directory", .is_rank = is_rank});
}

// Returns a file of the run directory. Everything but checkpoints may be missing or corrupt; then the text is empty.
std::string text_of(const std::filesystem::path& path) {
  try {
    return std::filesystem::exists(path) ? read_regular_file(path.string(), kMaxNbytes) : "";
  } catch (const IoError& error) {
    log::warn("run directory: ", error.message(), "; ignored");
    return "";
  }
}

// Returns true if the run of this directory took all steps of `config`.
bool has_all_steps(const std::filesystem::path& directory, const Config& config) {
  const std::string text = text_of(directory / "summary.json");
  if (tessera::detail::json_depth(text) > kMaxDepth) return false;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return false;
  const auto end = json.find("end");
  const auto steps = json.find("steps");
  return end != json.end() && *end == "done" && steps != json.end() && steps->is_number_integer() &&
         *steps >= config.train.steps;
}

// Returns true if the newest checkpoint is older than the last step. A finished run that saves checkpoints has saved
// one after its last step, so a summary.json that states the end is corrupt, or the save failed.
bool has_steps_left(const std::filesystem::path& directory, const Config& config) {
  if (config.checkpoint.every == 0) return false;
  const auto all = checkpoints_in(checkpoint_directory(config.checkpoint, directory));
  if (all.empty() || all.front().step >= config.train.steps) return false;
  log::warn("run directory '", directory.string(), "': summary.json reports ", config.train.steps,
            " steps, but the newest checkpoint is of step ", all.front().step, "; the run resumes from it");
  return true;
}

// Returns true if this directory holds the same run, finished: the same command again, maybe a restart of a job that
// was lost in its last moments. Throws if it holds another finished run.
bool is_finished(const std::filesystem::path& directory, const Config& config) {
  if (!has_all_steps(directory, config) || has_steps_left(directory, config)) return false;
  Config before;
  std::string differing;
  try {
    read_toml(before, directory / "config.toml");
    differing = differing_requests(before, config);
  } catch (const Error& error) {  // then its checkpoints decide
    log::warn("run directory '", directory.string(), "': config.toml cannot be read: ", error.message(),
              "; the run resumes from its checkpoints");
    return false;
  }
  TESSERA_CHECK_AS(IoError, differing.empty(), "run directory '", directory.string(),
                   "' already contains a finished run with other options (", differing,
                   "); raise train.steps to continue it, or use another --run.directory");
  return true;
}

// An earlier run without a valid checkpoint may start again if it is the same run.
void check_same_run(const std::filesystem::path& directory, const Config& config) {
  Config before;
  std::string differing;
  try {
    read_toml(before, directory / "config.toml");
    differing = differing_options(resolved(before, before.mesh.dp * before.mesh.fsdp * before.mesh.tp), config);
    if (before.data.files != config.data.files)
      differing += (differing.empty() ? "" : "; ") + std::string("data.files");
  } catch (const Error& error) {
    differing = "its config.toml cannot be read: " + error.message();
  }
  TESSERA_CHECK_AS(IoError, differing.empty(), "run directory '", directory.string(),
                   "' already contains a run with other options and no valid checkpoint (", differing,
                   "); use another --run.directory");
}

bool has_run(const std::filesystem::path& directory) { return std::filesystem::exists(directory / "config.toml"); }

void check_resume(const std::filesystem::path& directory, const Config& config) {
  TESSERA_CHECK_AS(
      IoError, !has_run(directory) || config.checkpoint.resume != "never", "run directory '", directory.string(),
      "' already contains a run (config.toml), and checkpoint.resume is never; use another --run.directory");
}

// Returns the checkpoint that an unfinished run resumes from, if any.
std::optional<CheckpointInfo> begin(const std::filesystem::path& directory, const Config& config, const Say& say,
                                    const OnProgress& on_progress) {
  const std::string& resume = config.checkpoint.resume;
  if (resume == "never") return std::nullopt;
  std::optional<CheckpointInfo> last = last_good(checkpoint_directory(config.checkpoint, directory), say, on_progress);
  if (!last && resume != "auto") last = named_checkpoint("checkpoint.resume", resume, say, on_progress);
  if (has_run(directory) && !last) check_same_run(directory, config);
  return last;
}

// Checkpoints do not follow a link that another user may have created.
void check_no_link(const std::filesystem::path& checkpoints, const CheckpointConfig& config) {
  std::error_code none;
  TESSERA_CHECK_AS(IoError, !config.directory.empty() || !std::filesystem::is_symlink(checkpoints, none), "'",
                   checkpoints.string(),
                   "' must not be a symbolic link; use its target as --checkpoint.directory, or remove it");
}

RunStart open(const Config& config, const Say& say, const OnProgress& on_progress) {
  const std::filesystem::path directory = make(config);
  check_no_link(directory / "checkpoints", config.checkpoint);
  RunStart start{.directory = directory, .lock = lock(directory, /*is_rank=*/true)};
  check_resume(directory, config);
  start.is_finished = has_run(directory) && is_finished(directory, config);
  if (start.is_finished) return start;
  const std::optional<CheckpointInfo> last = begin(directory, config, say, on_progress);
  // Checkpoints of adapters do not hold the other weights.
  if (!config.checkpoint.init.empty() && (!last || config.lora.rank > 0)) {
    start.init = is_hugging_face(config.checkpoint.init)
                     ? std::filesystem::absolute(config.checkpoint.init).lexically_normal()
                     : named_checkpoint("checkpoint.init", config.checkpoint.init, say, on_progress).path;
  }
  if (!last) return start;
  // The data is compared later, when it has been opened.
  check_same_options(checkpoint_texts(*last), config, last->path.string());
  start.checkpoint = last->path;
  return start;
}

// Writes only changed text, so that a resumed run needs no space.
void write_if_other(const std::filesystem::path& path, const std::string& text) {
  if (text_of(path) != text) write_file(path.string(), text, FileKind::kRun);
}

void take(const RunStart& start, const Config& config, const Say& say) {
  const std::filesystem::path& directory = start.directory;
  const bool had_run = has_run(directory) || !start.checkpoint.empty();
  const std::int64_t step = start.checkpoint.empty() ? 0 : open_checkpoint(start.checkpoint).step;
  if (had_run) {
    cut_back(directory, step);
    std::filesystem::remove(directory / "summary.json");
    // for steps of an earlier start
    std::filesystem::remove(directory / kProfileRequest);
  }
  write_if_other(directory / "config.toml", to_toml(config));
  if (config.checkpoint.directory.empty() && config.checkpoint.every > 0)
    make_run_subdirectory(directory / "checkpoints");
  if (!start.init.empty()) say("the initial weights are those of " + start.init.string() + "\n");
  if (!start.checkpoint.empty()) {
    say("resuming after step " + std::to_string(step) + " from " + start.checkpoint.string() + "\n");
  } else if (had_run) {
    say("the run in " + directory.string() + " has no checkpoint; starting from step 0\n");
  }
}

// Serializes a start. Paths may contain bytes that JSON cannot hold.
std::string to_text(const RunStart& start) {
  return (start.is_finished ? "f" : "b") + start.directory.string() + '\0' + start.checkpoint.string() + '\0' +
         start.init.string();
}

RunStart start_from(const std::string& text) {
  const std::size_t end = text.find('\0');
  const std::size_t second = text.find('\0', end + 1);
  return {.directory = text.substr(1, end - 1),
          .checkpoint = text.substr(end + 1, second - end - 1),
          .init = text.substr(second + 1),
          .is_finished = text[0] == 'f'};
}

}  // namespace

CheckpointInfo named_checkpoint(const std::string& option, const std::filesystem::path& given, const Say& say,
                                const OnProgress& on_progress) {
  const std::filesystem::path path = std::filesystem::absolute(given).lexically_normal();
  if (std::filesystem::exists(path / "index.json")) return good_checkpoint(path, on_progress);
  for (const std::filesystem::path& directory : {path, path / "checkpoints"}) {
    if (std::optional<CheckpointInfo> found = last_good(directory, say, on_progress)) return *found;
  }
  const std::filesystem::path own = path.has_filename() ? path : path.parent_path();
  if (own.filename().string().starts_with("step-"))
    return good_checkpoint(own, on_progress);  // reports the fault of a corrupt one
  TESSERA_THROW(IoError, option, ": no valid checkpoint in '", given.string(),
                "'; give a checkpoint, a directory of checkpoints, or a run directory");
}

RunStart look_at_directory(const std::filesystem::path& given, const Config& config) {
  const std::filesystem::path directory = std::filesystem::absolute(given).lexically_normal();
  RunStart start{.directory = directory};
  if (!std::filesystem::is_directory(directory)) return start;
  start.lock = lock(directory, /*is_rank=*/false);
  check_resume(directory, config);
  start.is_finished = has_run(directory) && is_finished(directory, config);
  if (start.is_finished || config.checkpoint.resume == "never") return start;
  const auto all = checkpoints_in(checkpoint_directory(config.checkpoint, directory));
  if (!all.empty()) {
    check_same_options(checkpoint_texts(all.front()), config, all.front().path.string());
    start.checkpoint = all.front().path;
  } else if (has_run(directory) && config.checkpoint.resume == "auto") {
    check_same_run(directory, config);
  }
  return start;
}

std::filesystem::path checkpoint_directory(const CheckpointConfig& config, const std::filesystem::path& run_directory) {
  return config.directory.empty() ? run_directory / "checkpoints"
                                  : std::filesystem::absolute(config.directory).lexically_normal();
}

RunRanks::RunRanks()
    : rank_(current_place().rank.value()),
      size_(current_place().world_size),
      run_(current_rank()->part<RunCount>([] { return std::make_shared<RunCount>(); }).runs++) {}

std::string RunRanks::key(const std::string& name) const { return "train/" + std::to_string(run_) + "/" + name; }

namespace {

// Waits in the group of all ranks. Unlike the store, it detects dead ranks, and its error names them immediately.
void meet() {
  const comm::ProcessGroup all = comm::world();
  const comm::Work barrier =
      all.launch({.kind = comm::OpKind::kBarrier}, tensor::current_stream(tensor::host_device()));
  if (all.deadline() < kPatience) all.extend_deadline(kPatience - all.deadline());
  barrier.wait();
}

[[noreturn]] void throw_lost(const char* when, const AbortedError& error) {
  TESSERA_THROW(AbortedError, "a rank was lost ", when, ": ", error.message(),
                "; run the same command to resume from the last checkpoint");
}

void meet_or_tell(const char* when) {
  try {
    meet();
  } catch (const AbortedError& error) {
    throw_lost(when, error);
  }
}

}  // namespace

// Returns the result of rank 0, or throws its error, on all ranks.
std::string RunRanks::told_by_first(const std::string& name, const std::function<std::string()>& work) const {
  if (size_ == 1) return work();
  std::exception_ptr refusal;
  std::string answer;
  if (rank_ == 0) {
    try {
      answer = work();
      comm::store()->set(key(name), "=" + answer);
    } catch (const AskedToEnd&) {
      refusal = std::current_exception();
      comm::store()->set(key(name), "~");
    } catch (const Error& error) {
      refusal = std::current_exception();
      comm::store()->set(key(name), "!" + error.message());
    } catch (const std::exception& error) {
      refusal = std::current_exception();
      comm::store()->set(key(name), std::string("!") + error.what());
    }
  }
  meet_or_tell("before the run began");
  if (refusal) std::rethrow_exception(refusal);
  if (rank_ == 0) return answer;
  answer = comm::store()->get(key(name), kPatience);
  if (answer == "~") throw AskedToEnd();
  TESSERA_CHECK_AS(IoError, answer.starts_with('='), answer.substr(1));
  return answer.substr(1);
}

RunStart RunRanks::open_directory(const Config& config, const Say& say, const OnProgress& on_progress) const {
  RunStart start;
  const std::string text = told_by_first("directory", [&] {
    start = open(config, say, on_progress);
    return to_text(start);
  });
  if (rank_ == 0) return start;
  start = start_from(text);
  // A launcher created its directory. If it is gone now, the run must fail and not write to another.
  if (!env::run_dir_lock().empty() && start.directory == env::run_dir()) return start;
  try {
    // on another machine it is another directory
    make_run_directory(start.directory, access_of(config.run));
  } catch (const IoError&) {
    // The first file opened there reports the fault.
  }
  return start;
}

void RunRanks::take_directory(const RunStart& start, const Config& config, const Say& say) const {
  (void)told_by_first("taken", [&] {
    take(start, config, say);
    return std::string();
  });
}

std::vector<RankNumbers> RunRanks::collect(const RankNumbers& own) const {
  std::vector<RankNumbers> all{own};
  if (size_ == 1) return all;
  if (rank_ != 0) comm::store()->set(key("rank/" + std::to_string(rank_)), to_text(own));
  meet_or_tell("after the last step, before the summary was written");
  if (rank_ != 0) return all;
  for (int rank = 1; rank < size_; ++rank)
    all.push_back(rank_numbers(comm::store()->get(key("rank/" + std::to_string(rank)), kPatience)));
  return all;
}

bool RunRanks::is_first_to_fail() const noexcept {
  if (size_ == 1) return true;
  try {
    return comm::store()->add(key("failed"), 1) == 1;
  } catch (const std::exception&) {
    return rank_ == 0;  // the store ended with its host rank
  }
}

void RunRanks::note_written() const {
  if (size_ > 1 && rank_ == 0) comm::store()->set(key("written"), "yes");
}

bool RunRanks::is_written() const noexcept {
  try {
    return rank_ == 0 || comm::store()->find(key("written")).has_value();
  } catch (const std::exception&) {
    return false;  // the store ended with its host rank
  }
}

void RunRanks::finish() const {
  if (size_ == 1) return;
  try {
    meet();
  } catch (const AbortedError& error) {
    if (!is_written()) throw_lost("before the summary was written", error);
    log::warn("a rank was lost after all files were written: ", error.message());
  }
}

}  // namespace tessera::train::detail
