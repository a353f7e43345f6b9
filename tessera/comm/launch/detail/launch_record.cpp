#include "tessera/comm/launch/detail/launch_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/comm/launch/detail/child.h"

namespace tessera::comm::detail {
namespace {

using Json = nlohmann::ordered_json;

std::string now_as(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string now_text() { return now_as("%Y-%m-%dT%H:%M:%SZ"); }

std::string chosen_directory(const LaunchOptions& options) {
  if (!options.run_dir.empty()) return options.run_dir;
  std::string from_environment = env::run_dir();
  if (!from_environment.empty()) return from_environment;
  return "runs/" + now_as("%Y%m%d-%H%M%S") + "-" + std::to_string(::getpid());
}

// Who has a run going on there keeps the directory locked, and its launch.json is not ours to replace.
void check_free(const std::filesystem::path& directory, const std::string& option) {
  const Descriptor open(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_taken = open && ::flock(open.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  TESSERA_CHECK_AS(IoError, !is_taken, "run directory '", directory.string(),
                   "' is that of a run which is going on; wait for it to end, or give another with ", option);
}

}  // namespace

LaunchRecord::LaunchRecord(const LaunchOptions& options) : command_(options.command), started_(now_text()) {
  const auto path = std::filesystem::absolute(chosen_directory(options)).lexically_normal();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  TESSERA_CHECK_AS(IoError, !error && std::filesystem::is_directory(path), "run directory ", path.string(),
                   " cannot be made: ", error ? error.message() : "it is no directory", "; give another with ",
                   options.run_dir_option);
  check_free(path, options.run_dir_option);
  directory_ = path.string();
}

void LaunchRecord::started(const std::vector<int>& pids, const std::string& store) {
  store_ = store;
  starts_.push_back({now_text(), {}});
  for (const int pid : pids) starts_.back().ranks.push_back({.pid = pid});
  starts_.size() == 1 ? write() : try_to_write();
}

void LaunchRecord::ended(const RankEnd& end) {
  RankLine& line = starts_.back().ranks.at(static_cast<std::size_t>(end.rank));
  line.end = end;
  line.time = now_text();
  if (!end.is_good()) try_to_write();
}

int LaunchRecord::finished(int exit_code) {
  exit_code_ = exit_code;
  ended_ = now_text();
  problem_.clear();
  try_to_write();
  return exit_code == 0 && !problem_.empty() ? 1 : exit_code;
}

std::string LaunchRecord::take_problem() {
  if (problem_.empty() || std::exchange(is_told_, true)) return {};
  return problem_;
}

// A disk that is full now must not end ranks that go on.
void LaunchRecord::try_to_write() noexcept {
  try {
    write();
  } catch (const Error& error) {
    problem_ = error.message();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

void LaunchRecord::write() const {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::error_code ignored;
  Json json = {{"command", command_},
               {"ranks", starts_.back().ranks.size()},
               {"host", host},
               {"launcher_pid", ::getpid()},
               {"directory", std::filesystem::current_path(ignored).string()},
               {"started", started_},
               {"store", store_}};
  if (exit_code_) {
    json["exit_code"] = *exit_code_;
    json["ended"] = ended_;
  }
  json["starts"] = Json::array();
  for (const Start& start : starts_) {
    Json ranks = Json::array();
    for (std::size_t i = 0; i < start.ranks.size(); ++i) {
      const RankLine& line = start.ranks[i];
      Json rank = {{"rank", i}, {"pid", line.pid}};
      if (line.end) {
        rank["end"] = to_string(*line.end);
        rank["exit_code"] = line.end->exit_code;
        rank["signal"] = line.end->signal;
        rank["time"] = line.time;
      }
      ranks.push_back(std::move(rank));
    }
    json["starts"].push_back({{"time", start.time}, {"ranks", std::move(ranks)}});
  }
  write_file(directory_ + "/launch.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace tessera::comm::detail
