#include "tessera/comm/launch/detail/launch_record.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"

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

}  // namespace

LaunchRecord::LaunchRecord(const LaunchOptions& options) : command_(options.command), started_(now_text()) {
  const auto path = std::filesystem::absolute(chosen_directory(options)).lexically_normal();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  TESSERA_CHECK_AS(IoError, !error && std::filesystem::is_directory(path), "run directory ", path.string(),
                   " cannot be made: ", error ? error.message() : "it is no directory",
                   "; give another with --run-dir");
  directory_ = path.string();
}

void LaunchRecord::started(const std::vector<int>& pids, const std::string& store) {
  store_ = store;
  starts_.push_back({now_text(), {}});
  for (const int pid : pids) starts_.back().ranks.push_back({.pid = pid});
  write();
}

void LaunchRecord::ended(const RankEnd& end) {
  RankLine& line = starts_.back().ranks.at(static_cast<std::size_t>(end.rank));
  line.end = end;
  line.time = now_text();
  if (!end.is_good()) write();
}

void LaunchRecord::finished(int exit_code) {
  exit_code_ = exit_code;
  ended_ = now_text();
  write();
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
