#include "tessera/comm/launch/detail/rank_watch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/probe/table_view.h"

namespace tessera::comm::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 200ms;         // polling period for a report
constexpr auto kFirstLooks = 1000ms;  // polling period for records, until there are heartbeats

// Returns the state of /proc/PID/stat: R, S, D, T (stopped), t (traced), Z; 0 if there is no such process.
char state_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string line = text.str();
  const std::size_t name_end = line.rfind(')');  // a name may contain any character
  return name_end != std::string::npos && name_end + 2 < line.size() ? line[name_end + 2] : '\0';
}

std::uint64_t number_of(const probe::RowInfo& row, std::string_view name) {
  const probe::Field* field = row.find(name);
  const auto* number = field != nullptr ? std::get_if<std::uint64_t>(&field->value) : nullptr;
  return number != nullptr ? *number : 0;
}

}  // namespace

RankWatch::RankWatch(std::string directory, std::chrono::nanoseconds patience)
    : directory_(std::move(directory)), patience_(patience) {}

void RankWatch::started(const std::vector<int>& pids) {
  ranks_.clear();
  for (const int pid : pids) ranks_.push_back({.pid = pid, .beaten = Clock::now()});
  next_look_ = Clock::now() + kFirstLooks;
  next_read_ = next_look_;
  int number = 1;
  const auto aside = [&](const char* ending) { return directory_ + "/explain." + std::to_string(number) + ending; };
  while (std::filesystem::exists(aside(".txt")) || std::filesystem::exists(aside(".json"))) ++number;
  std::error_code ignored;
  for (const char* ending : {".txt", ".json"}) {
    std::filesystem::rename(directory_ + "/explain" + ending, aside(ending), ignored);
  }
}

void RankWatch::ended(int rank) { ranks_.at(static_cast<std::size_t>(rank)).has_ended = true; }

bool RankWatch::has_heartbeats() const {
  return std::ranges::any_of(ranks_, [](const Watched& rank) { return !rank.has_ended && rank.beats > 0; });
}

bool RankWatch::has_report() const { return ::access((directory_ + "/explain.json").c_str(), F_OK) == 0; }

bool RankWatch::have_all_told() const {
  return std::ranges::all_of(ranks_, [](const Watched& rank) {
    if (rank.has_ended || rank.beats == 0 || rank.told > 0) return true;
    const char state = state_of(rank.pid);
    return state == 'T' || state == 't';
  });
}

// rank-R.HOST.PID.START in the run directory.
void RankWatch::find_records() {
  const bool has_all =
      std::ranges::all_of(ranks_, [](const Watched& rank) { return rank.has_ended || !rank.file.empty(); });
  if (has_all) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    std::size_t number = 0;
    const auto [end, problem] =
        std::from_chars(name.data() + std::min<std::size_t>(5, name.size()), name.data() + name.size(), number);
    if (name.rfind("rank-", 0) != 0 || problem != std::errc() || number >= ranks_.size()) continue;
    const std::string process = "." + std::to_string(ranks_[number].pid) + ".";
    if (name.find(process, static_cast<std::size_t>(end - name.data())) == std::string::npos) continue;
    ranks_[number].file = entry.path().string();
  }
}

void RankWatch::read_heartbeats() {
  find_records();
  for (Watched& rank : ranks_) {
    if (!rank.has_ended && !rank.file.empty()) read_heartbeat(rank);
  }
}

void RankWatch::read_heartbeat(Watched& rank) {
  try {
    const probe::RecordFile file = probe::open_record_tables(rank.file);
    const probe::TableInfo* table = file.find_table("watch_heartbeat");
    if (table == nullptr || table->claimed.empty() || table->claimed[0].is_torn) return;
    rank.told = number_of(table->claimed[0], "told");
    // One more than its own count, so that a heart that stopped before its first beat is seen too.
    const std::uint64_t beats = number_of(table->claimed[0], "beats") + 1;
    if (beats == rank.beats) return;
    if (rank.beats != 0) rank.was_told = false;  // it continues
    rank.beats = beats;
    rank.beaten = Clock::now();
  } catch (const IoError&) {
    // The record is being created, or was removed.
  }
}

std::string RankWatch::standing_of(const Watched& rank, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - rank.beaten).count();
  switch (state_of(rank.pid)) {
    case 'T': return "stopped (SIGSTOP); resume it with `kill -CONT " + std::to_string(rank.pid) + "`";
    case 't': return "stopped by a debugger";
    case 'D': return "blocked in the kernel, on a disk or a device";
    default: break;
  }
  return tessera::detail::concat("no heartbeat for ", static_cast<int>(seconds), " s");
}

std::vector<std::string> RankWatch::look() {
  std::vector<std::string> lines;
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return lines;
  if (now >= next_read_) {
    read_heartbeats();
    // In a large world it is read less often: a record has a few megabytes per rank.
    const auto pause = std::clamp<std::chrono::nanoseconds>(patience_ / 4, 100ms, 2500ms);
    next_read_ = Clock::now() + (has_heartbeats() ? pause : kFirstLooks);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Watched& rank = ranks_[i];
    if (rank.has_ended || rank.beats == 0 || rank.was_told || now - rank.beaten < patience_) continue;
    rank.was_told = true;
    lines.push_back(
        tessera::detail::concat("rank ", i, " (process ", rank.pid, ") does not run: ", standing_of(rank, now)));
  }
  next_look_ = Clock::now() + (has_heartbeats() ? kLook : kFirstLooks);
  return lines;
}

std::vector<std::string> RankWatch::silent() {
  std::vector<std::string> lines;
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Watched& rank = ranks_[i];
    if (rank.has_ended || rank.was_told) continue;
    const char state = state_of(rank.pid);
    if (state != 'T' && state != 't') continue;
    rank.was_told = true;
    lines.push_back(
        tessera::detail::concat("rank ", i, " (process ", rank.pid, ") cannot report: ", standing_of(rank, now)));
  }
  return lines;
}

}  // namespace tessera::comm::detail
