#include "tessera/train/detail/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/resume.h"

namespace tessera::train::detail {
namespace {

// Rank 0 may have much to read before the first step, and others may still be writing after the last.
constexpr auto kPatience = std::chrono::minutes(10);

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

std::filesystem::path make(const Config& config) {
  std::filesystem::path path = std::filesystem::absolute(chosen(config.run)).lexically_normal();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  TESSERA_CHECK_AS(IoError, !error && std::filesystem::is_directory(path), "run directory '", path.string(),
                   "' cannot be made: ", error ? error.message() : "it is no directory",
                   "; give another with --run.directory");
  return path;
}

// Keeps other runs out of the directory, until it is let go of or this process ends, however that happens. A file
// system that has no locks keeps nobody out.
std::shared_ptr<void> lock(const std::filesystem::path& directory) {
  const std::shared_ptr<int> fd(new int(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), [](int* open) {
    if (*open >= 0) ::close(*open);
    delete open;
  });
  const bool is_taken = *fd >= 0 && ::flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  TESSERA_CHECK_AS(IoError, !is_taken, "run directory '", directory.string(),
                   "' is that of a run which is going on; wait for it to end, or give another with --run.directory");
  return fd;
}

// Whether the run of this directory took all the steps that are asked for now.
bool is_finished(const std::filesystem::path& directory, const Config& config) {
  std::ifstream in(directory / "summary.json");
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || json.value("end", "") != "done") return false;
  return json.contains("steps") && json["steps"].is_number_integer() && json["steps"] >= config.train.steps;
}

// A run that was there before and has no good checkpoint may begin anew, if it is the same run.
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
                   "' holds a run already, with no good checkpoint to go on from and other options (", differing,
                   "); give another with --run.directory");
}

// The checkpoint that checkpoint.resume names: one, or the last good one of a directory or of a run.
CheckpointInfo named_checkpoint(const std::filesystem::path& given, const Say& say) {
  const std::filesystem::path path = std::filesystem::absolute(given).lexically_normal();
  if (std::filesystem::exists(path / "index.json")) return open_checkpoint(path);
  for (const std::filesystem::path& directory : {path, path / "checkpoints"}) {
    if (std::optional<CheckpointInfo> found = last_good(directory, say)) return *found;
  }
  TESSERA_THROW(IoError, "checkpoint.resume is '", given.string(),
                "', where there is no good checkpoint; name a checkpoint, a directory of some, or a run directory");
}

// What becomes of the directory; the checkpoint to go on from, if any.
std::optional<CheckpointInfo> begin(const std::filesystem::path& directory, const Config& config, const Say& say) {
  const bool has_run = std::filesystem::exists(directory / "config.toml");
  const std::string& resume = config.checkpoint.resume;
  const std::string refusal = "run directory '" + directory.string() + "' holds a run already";
  TESSERA_CHECK_AS(IoError, !has_run || resume != "never", refusal,
                   " (config.toml), and checkpoint.resume is never; give another with --run.directory");
  TESSERA_CHECK_AS(IoError, !has_run || !is_finished(directory, config), refusal,
                   ", which is finished; raise train.steps to go on, or give another with --run.directory");
  if (resume == "never") return std::nullopt;
  std::optional<CheckpointInfo> last = last_good(checkpoint_directory(config.checkpoint, directory), say);
  if (!last && resume != "auto") last = named_checkpoint(resume, say);
  if (has_run && !last) check_same_run(directory, config);
  return last;
}

RunStart open(const Config& config, const Say& say) {
  const std::filesystem::path directory = make(config);
  std::shared_ptr<void> held = lock(directory);
  const bool had_run = std::filesystem::exists(directory / "config.toml");
  const std::optional<CheckpointInfo> last = begin(directory, config, say);
  // Whether the data are the same is known later, when they have been opened.
  if (last) check_same_options(checkpoint_texts(*last), config, last->path.string());
  if (had_run) {
    cut_back(directory, last ? last->step : 0);
    std::filesystem::remove(directory / "summary.json");
  }
  write_file((directory / "config.toml").string(), to_toml(config));
  if (last) {
    say("going on after step " + std::to_string(last->step) + " from " + last->path.string() + "\n");
  } else if (had_run) {
    say("the run in " + directory.string() + " has no checkpoint: it begins anew\n");
  }
  return {.directory = directory, .checkpoint = last ? last->path : std::filesystem::path(), .lock = std::move(held)};
}

}  // namespace

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

// The group of all ranks, other than the store, knows of ranks that die: its error names them at once.
void meet() {
  const comm::ProcessGroup all = comm::world();
  const comm::Work barrier =
      all.launch({.kind = comm::OpKind::kBarrier}, tensor::current_stream(device::Device::get("host")));
  if (all.deadline() < kPatience) all.extend_deadline(kPatience - all.deadline());
  barrier.wait();
}

[[noreturn]] void throw_lost(const char* when, const AbortedError& error) {
  TESSERA_THROW(AbortedError, "a rank was lost ", when, ": ", error.message(),
                "; the same command goes on from the last checkpoint");
}

void meet_or_tell(const char* when) {
  try {
    meet();
  } catch (const AbortedError& error) {
    throw_lost(when, error);
  }
}

}  // namespace

RunStart RunRanks::open_directory(const Config& config, const Say& say) const {
  if (size_ == 1) return open(config, say);
  RunStart start;
  std::exception_ptr refusal;
  if (rank_ == 0) {
    try {
      start = open(config, say);
      const nlohmann::json json = {start.directory.string(), start.checkpoint.string()};
      comm::store()->set(key("directory"), "=" + json.dump());
    } catch (const Error& error) {
      refusal = std::current_exception();
      comm::store()->set(key("directory"), "!" + error.message());
    }
  }
  meet_or_tell("before the run began");
  if (refusal) std::rethrow_exception(refusal);
  if (rank_ == 0) return start;
  const std::string answer = comm::store()->get(key("directory"), kPatience);
  TESSERA_CHECK_AS(IoError, answer.starts_with('='), answer.substr(1));
  const nlohmann::json json = nlohmann::json::parse(answer.substr(1));
  start = {.directory = json.at(0).get<std::string>(), .checkpoint = json.at(1).get<std::string>(), .lock = {}};
  std::error_code ignored;  // on another machine it is another directory; who opens a file there says what is wrong
  std::filesystem::create_directories(start.directory, ignored);
  return start;
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
    return rank_ == 0;  // the store went with whoever hosts it
  }
}

void RunRanks::note_written() const {
  if (size_ > 1 && rank_ == 0) comm::store()->set(key("written"), "yes");
}

bool RunRanks::is_written() const noexcept {
  try {
    return rank_ == 0 || comm::store()->find(key("written")).has_value();
  } catch (const std::exception&) {
    return false;  // the store went with whoever hosts it
  }
}

void RunRanks::finish() const {
  if (size_ == 1) return;
  try {
    meet();
  } catch (const AbortedError& error) {
    if (!is_written()) throw_lost("before the summary was written", error);
    log::warn("a rank was lost when all was written: ", error.message());
  }
}

}  // namespace tessera::train::detail
