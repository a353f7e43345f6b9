#include "tessera/analysis/read_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>

#include "tessera/analysis/detail/launch_file.h"
#include "tessera/analysis/detail/live_report.h"
#include "tessera/analysis/detail/process_state.h"
#include "tessera/analysis/detail/read_groups.h"
#include "tessera/analysis/detail/read_rank.h"
#include "tessera/analysis/detail/run_files.h"
#include "tessera/analysis/detail/stop_reason.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"

namespace tessera::analysis {
namespace {

using detail::LaunchedEnd;
using detail::ProcessState;
using detail::RunFile;
using probe::RecordFile;
using probe::RecordState;

constexpr int kRereads = 3;  // for a file with half-written rows

bool has_torn_rows(const RecordFile& file) {
  return std::any_of(file.tables().begin(), file.tables().end(), [](const probe::TableInfo& table) {
    return table.kind.starts_with("comm_") && std::any_of(table.claimed.begin(), table.claimed.end(),
                                                          [](const probe::RowInfo& row) { return row.is_torn; });
  });
}

// Opens the file; adds a problem if nothing is usable. A live process may just be writing rows.
std::optional<RecordFile> open_file(const RunFile& file, ProcessState process, std::vector<std::string>& problems) {
  try {
    std::optional<RecordFile> opened = RecordFile::open(file.path);
    for (int i = 0; i < kRereads && process == ProcessState::kRunning && has_torn_rows(*opened); ++i)
      opened = RecordFile::open(file.path);
    return opened;
  } catch (const Error& error) {
    problems.push_back(error.message());
    return std::nullopt;
  }
}

void take_end(Rank& rank, const LaunchedEnd& end) {
  rank.signal = end.signal;
  if (rank.reason.empty()) rank.reason = end.words;
  rank.state = end.signal != 0 ? RankState::kDied : end.exit_code != 0 ? RankState::kFailed : RankState::kEnded;
}

// Sets the state of the rank from its record, /proc and the launcher, in this order: a record of a failure has the best
// reason, and a running process has not ended, whatever was written about it.
void settle_state(Rank& rank, std::optional<RecordState> record, ProcessState process, const LaunchedEnd* end) {
  // A rank that had ended before its launcher died was not killed with it.
  const bool has_ended = record == RecordState::kFailed || record == RecordState::kEnded;
  if (end != nullptr && end->is_assumed && has_ended) end = nullptr;
  if (end != nullptr) rank.ended_by = end->sent_for;
  if (record == RecordState::kFailed) {
    rank.state = RankState::kFailed;
    if (end != nullptr) rank.signal = end->signal;
    return;
  }
  if (record == RecordState::kEnded) {
    rank.state = RankState::kEnded;
    if (end != nullptr) take_end(rank, *end);
    return;
  }
  switch (process) {
    case ProcessState::kRunning: rank.state = RankState::kRunning; return;
    case ProcessState::kStopped: rank.state = RankState::kStopped; return;
    case ProcessState::kGone: rank.state = RankState::kDied; break;
    case ProcessState::kUnseen: rank.state = RankState::kUnknown; break;
  }
  if (end != nullptr) take_end(rank, *end);
}

class RunReader {
 public:
  RunReader(const std::string& directory, const ReadOptions& options) : options_(options) {
    evidence_.source = directory;
  }

  Evidence run() {
    const std::string& directory = evidence_.source;
    std::error_code error;
    TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(directory, error), "run directory ", directory,
                     ": no such directory", error ? " (" + error.message() + ")" : std::string());
    launch_ = detail::read_launch_file(directory + "/launch.json", evidence_.problems);
    if (options_.smaller_since_ns != 0) leave_out_larger_world();
    detail::RunFiles found = detail::find_run_files(directory, launch_ ? &*launch_ : nullptr, evidence_.problems);
    TESSERA_CHECK_AS(IoError, found.has_any || launch_, "run directory ", directory,
                     ": no record file (rank-N.HOST.PID.SERIAL.record) and no readable launch.json; use the --run-dir "
                     "or TESSERA_RUN_DIR of the run");
    if (found.is_after_launch) launch_.reset();
    if (found.larger_size > 0) evidence_.before = words_before(found);
    if (launch_ && (found.larger_size > 0 || options_.smaller_since_ns != 0)) find_launched(found.files);
    std::int64_t since_ns = launch_ ? launch_->started_ns : 0;
    for (const RunFile& file : found.files) since_ns = std::max(since_ns, file.began_ns);
    evidence_.stopped = detail::stop_reason(directory, since_ns);
    evidence_.world_size = found.world_size;
    for (const RunFile& file : found.files) evidence_.world_size = std::max(evidence_.world_size, file.rank + 1);
    for (int rank = 0; rank < evidence_.world_size; ++rank) {
      evidence_.ranks.push_back({.rank = rank, .state = RankState::kMissing});
    }
    for (const RunFile& file : found.files) read_file(file, evidence_.ranks[static_cast<std::size_t>(file.rank)]);
    for (Rank& rank : evidence_.ranks) {
      if (rank.state == RankState::kMissing) take_missing(rank);
    }
    recall_stopped();
    evidence_.taken_ns = taken_ns();
    return std::move(evidence_);
  }

  Evidence one() {
    const RunFile file = detail::run_file_at(evidence_.source);
    TESSERA_CHECK_AS(
        IoError, file.world_size > 0, "record ", file.path, ": ",
        file.problem.empty() ? "unreadable header; not a record file, or of a newer version" : file.problem);
    evidence_.world_size = file.world_size;
    evidence_.ranks.push_back({.rank = file.rank});
    read_file(file, evidence_.ranks.front());
    evidence_.taken_ns = taken_ns();
    return std::move(evidence_);
  }

 private:
  // The launcher knows only the world that it started.
  void leave_out_larger_world() {
    if (!launch_) launch_.emplace();
    launch_->ranks = 0;
    launch_->started_ns = options_.smaller_since_ns;
  }
  // Maps its processes to their current ranks.
  void find_launched(const std::vector<RunFile>& files) {
    std::map<int, detail::LaunchedRank> by_rank;
    for (const RunFile& file : files) {
      for (const auto& [before, each] : launch_->by_rank) {
        if (each.pid == file.process.pid) by_rank[file.rank] = each;
      }
    }
    launch_->by_rank = std::move(by_rank);
  }

  [[nodiscard]] const detail::LaunchedRank* launched(int rank) const {
    if (!launch_) return nullptr;
    const auto found = launch_->by_rank.find(rank);
    return found != launch_->by_rank.end() ? &found->second : nullptr;
  }
  [[nodiscard]] const LaunchedEnd* launched_end(int rank) const {
    const detail::LaunchedRank* found = launched(rank);
    return found != nullptr && found->end ? &*found->end : nullptr;
  }

  // Describes how many ranks began, and the ends of those that the others continued without.
  [[nodiscard]] std::string words_before(const detail::RunFiles& found) const {
    std::string words = tessera::detail::concat(found.larger_size, " ranks started");
    for (const auto& [rank, one] : launch_->by_rank) {
      const bool is_bad = one.end && (one.end->signal != 0 || one.end->exit_code != 0);
      const bool is_here = std::ranges::find(found.files, one.pid,
                                             [](const RunFile& file) { return file.process.pid; }) != found.files.end();
      if (is_bad && !is_here) words += tessera::detail::concat("; rank ", rank, " ", one.end->words);
    }
    return words;
  }

  void read_file(const RunFile& file, Rank& rank) {
    rank.file = file.path;
    rank.host = file.host;
    rank.pid = file.process.pid;
    // Checked before the file is read: the file then contains everything that a gone process did.
    const ProcessState process = file.process.start != 0 ? detail::state_of(file.process) : ProcessState::kUnseen;
    const std::optional<RecordFile> opened =
        file.problem.empty() ? open_file(file, process, evidence_.problems) : std::nullopt;
    rank.is_unread = !opened;
    if (!opened) {
      settle_state(rank, std::nullopt, process, launched_end(file.rank));
      return;
    }
    std::vector<std::string>& problems = evidence_.problems;
    problems.insert(problems.end(), opened->problems().begin(), opened->problems().end());
    const probe::FileInfo& info = opened->info();
    rank.host = info.hostname.empty() ? rank.host : info.hostname;
    rank.reason = info.state == RecordState::kFailed ? info.reason : std::string();
    settle_state(rank, info.state, process, launched_end(file.rank));
    if (info.rank != file.rank) {
      problems.push_back(tessera::detail::concat(file.path, ": the header names rank ", info.rank,
                                                 "; using the rank of the file name"));
    }
    rank.first_ns = detail::first_launch_ns(*opened);
    rank.last_ns = detail::last_record_ns(*opened);
    for (const probe::RingInfo& ring : opened->rings()) rank.lost += ring.name == "comm" ? ring.overwritten : 0;
    rank.groups = detail::read_groups(*opened, options_.last_launches, problems);
    rank.creations = detail::read_group_creations(*opened, problems);
    rank.annotations = detail::read_marks(*opened, problems);
    rank.launches = detail::read_last_launches(*opened);
    if (options_.has_memory) rank.memory = detail::read_memory(*opened, problems);
  }

  // Describes a rank without a file from the data of its launcher.
  void take_missing(Rank& rank) {
    const detail::LaunchedRank* found = launched(rank.rank);
    if (found == nullptr) return;
    rank.pid = found->pid;
    rank.host = launch_->host;
    if (!found->end) return;
    take_end(rank, *found->end);
    rank.ended_by = found->end->sent_for;
  }

  // A rank that was stopped when the launcher ended it is still explained as stopped, from the report of that time: it
  // was killed, or it continued only to report the failure of the others.
  void recall_stopped() {
    const auto is_ended = [](const Rank& rank) {
      return (rank.state == RankState::kDied || rank.state == RankState::kFailed) && !rank.ended_by.empty();
    };
    if (std::ranges::none_of(evidence_.ranks, is_ended)) return;
    const auto stopped = detail::ranks_seen_stopped(evidence_.source);
    for (Rank& rank : evidence_.ranks) {
      if (is_ended(rank) && stopped.contains({rank.rank, rank.pid})) rank.state = RankState::kStopped;
    }
  }

  // Returns the current time if ranks may still be active; otherwise the time of the last event.
  [[nodiscard]] std::int64_t taken_ns() const {
    std::int64_t last = launch_ ? launch_->ended_ns : 0;
    bool is_over = true;
    for (const Rank& rank : evidence_.ranks) {
      last = std::max(last, rank.last_ns);
      if (const LaunchedEnd* end = launched_end(rank.rank)) last = std::max(last, end->time_ns);
      const bool was_stopped = rank.state == RankState::kStopped && !rank.ended_by.empty();
      is_over &= was_stopped || rank.state == RankState::kEnded || rank.state == RankState::kFailed ||
                 rank.state == RankState::kDied;
    }
    if (is_over && last != 0) return last;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  ReadOptions options_;
  std::optional<detail::LaunchFile> launch_;
  Evidence evidence_;
};

}  // namespace

Evidence read_run(const std::string& directory, const ReadOptions& options) {
  return RunReader(directory, options).run();
}

Evidence read_record(const std::string& path, const ReadOptions& options) { return RunReader(path, options).one(); }

}  // namespace tessera::analysis
