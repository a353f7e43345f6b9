#include "tessera/comm/launch/detail/launch_record.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <random>
#include <utility>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/comm/launch/detail/signal_desk.h"

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

// Returns 16 hexadecimal digits that are unique to this launch.
std::string new_launch_id() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

std::string chosen_directory(const LaunchOptions& options) {
  if (!options.run_dir.empty()) return options.run_dir;
  std::string from_environment = env::run_dir();
  if (!from_environment.empty()) return from_environment;
  return "runs/" + now_as("%Y%m%d-%H%M%S") + "-" + std::to_string(::getpid());
}

// Creates the directory and locks it. Another launcher or trainer that has locked it has its own launch.json there.
std::unique_ptr<RunDirectoryLock> take_directory(const std::filesystem::path& path, const LaunchOptions& options) {
  try {
    make_run_directory(path, options.shared ? RunAccess::kGroup : RunAccess::kPrivate);
  } catch (const IoError& error) {
    TESSERA_THROW(IoError, error.message(), "; choose another directory with ", options.run_dir_option);
  }
  return std::make_unique<RunDirectoryLock>(path, RunDirectoryLockOptions{.option = options.run_dir_option});
}

std::string_view to_text(SignalReason reason) {
  switch (reason) {
    case SignalReason::kReceived: return "received";
    case SignalReason::kReceivedAgain: return "received_again";
    case SignalReason::kRankFailed: return "rank_failed";
    case SignalReason::kGraceExpired: return "grace_expired";
    case SignalReason::kOutputClosed: return "output_closed";
  }
  return "unknown";
}

Json to_json(const SentSignal& sent, const std::string& time, int count) {
  Json json = {{"signal", sent.number}, {"name", signal_name(sent.number)}, {"time", time}};
  if (count > 1) json["count"] = count;
  json["reason"] = to_text(sent.reason);
  json["text"] = sent.text;
  if (sent.failed_rank) json["failed_rank"] = *sent.failed_rank;
  if (sent.sender_pid) json["sender_pid"] = *sent.sender_pid;
  if (sent.sender_uid) json["sender_uid"] = *sent.sender_uid;
  return json;
}

}  // namespace

LaunchJournal::LaunchJournal(const LaunchOptions& options)
    : id_(new_launch_id()),
      command_(options.command),
      directory_(std::filesystem::absolute(chosen_directory(options)).lexically_normal()),
      new_directory_(directory_),
      lock_(take_directory(directory_, options)),
      started_(now_text()) {}

std::string LaunchJournal::lost_directory() const {
  try {
    lock_->check_in_place();
    return {};
  } catch (const IoError& error) {
    return error.message();
  }
}

void LaunchJournal::started(const std::vector<int>& pids, const std::string& store) {
  store_ = store;
  starts_.push_back({now_text(), {}});
  for (const int pid : pids) starts_.back().ranks.push_back({.pid = pid});
  starts_.size() == 1 ? write() : try_to_write();
  new_directory_.keep();  // another process may replace it by an empty one
}

void LaunchJournal::signalled(const std::vector<int>& ranks, const SentSignal& signal) {
  for (const int rank : ranks) {
    std::vector<LoggedSignal>& lines = starts_.back().ranks.at(static_cast<std::size_t>(rank)).signals;
    const bool is_same = !lines.empty() && lines.back().sent.number == signal.number &&
                         lines.back().sent.reason == signal.reason && lines.back().sent.sender_pid == signal.sender_pid;
    if (is_same) {
      ++lines.back().count;
    } else {
      lines.push_back({signal, now_text()});
    }
  }
  if (!ranks.empty()) try_to_write();
}

void LaunchJournal::ended(const RankEnd& end) {
  RankLine& line = starts_.back().ranks.at(static_cast<std::size_t>(end.rank));
  line.end = end;
  line.time = now_text();
  if (!end.is_good()) try_to_write();
}

int LaunchJournal::finished(int exit_code) {
  exit_code_ = exit_code;
  ended_ = now_text();
  problem_.clear();
  try_to_write();
  return exit_code == 0 && !problem_.empty() ? 1 : exit_code;
}

std::string LaunchJournal::take_problem() {
  if (problem_.empty() || std::exchange(is_told_, true)) return {};
  return problem_;
}

// A full disk must not end ranks that continue.
void LaunchJournal::try_to_write() noexcept {
  try {
    write();
  } catch (const Error& error) {
    problem_ = error.message();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

void LaunchJournal::write() const {
  lock_->check_in_place();  // a directory that replaced it is not ours
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::error_code ignored;
  Json json = {{"launch_id", id_},
               {"command", command_},
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
      for (const LoggedSignal& sent : line.signals)
        rank["signals"].push_back(to_json(sent.sent, sent.time, sent.count));
      ranks.push_back(std::move(rank));
    }
    json["starts"].push_back({{"time", start.time}, {"ranks", std::move(ranks)}});
  }
  write_file((directory_ / "launch.json").string(), json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n",
             FileKind::kRun);
}

}  // namespace tessera::comm::detail
