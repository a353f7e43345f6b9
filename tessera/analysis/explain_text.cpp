// The explanation as human-readable text. Text from files is escaped.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <tuple>

#include "tessera/analysis/detail/whereabouts.h"
#include "tessera/analysis/detail/wording.h"
#include "tessera/analysis/explain.h"
#include "tessera/base/bytes.h"

namespace tessera::analysis {
namespace {

using detail::text_of;
using detail::text_of_ranks;
using detail::visible;

constexpr std::size_t kMaxLines = 40;                // maximum of wait lines
constexpr std::size_t kManyRanks = 16;               // above it, only launches of relevant ranks are shown
constexpr std::size_t kWidestCell = 64;              // in bytes
constexpr std::int64_t kLastTime = 253'402'300'799;  // seconds: the end of year 9999

std::string text_of(Stage stage) {
  switch (stage) {
    case Stage::kAsked: return "enqueued";
    case Stage::kBegun: return "waits";
    case Stage::kMet: return "moves";
    case Stage::kDone: return "done";
    case Stage::kFailed: break;
  }
  return "failed";
}

std::string time_text(std::int64_t time_ns) {
  const std::int64_t seconds = time_ns / 1'000'000'000;
  if (time_ns <= 0 || seconds > kLastTime) return "-";
  return fmt::format("{:%H:%M:%S}.{:03}", fmt::gmtime(static_cast<std::time_t>(seconds)), time_ns / 1'000'000 % 1000);
}

class Text {
 public:
  Text(const Evidence& evidence, const Explanation& found, const ShowOptions& options)
      : evidence_(evidence), found_(found), options_(options) {}

  std::string shown() {
    out_ = fmt::format(
        "{}: {}\n", visible(evidence_.source.empty() ? "run" : evidence_.source),
        detail::text_of_count(static_cast<std::size_t>(std::max(evidence_.world_size, 0)), "rank", "ranks"));
    if (!evidence_.before.empty()) out_ += fmt::format("before: {}\n", visible(evidence_.before));
    show_ranks();
    show_groups();
    show_differences();
    show_waits();
    show_stragglers();
    show_problems();
    show_verdict();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool has(int rank) const {
    return options_.ranks.empty() ||
           std::find(options_.ranks.begin(), options_.ranks.end(), rank) != options_.ranks.end();
  }
  [[nodiscard]] bool has(const std::string& group) const { return options_.group.empty() || options_.group == group; }
  [[nodiscard]] std::string colored(const std::string& text, const char* code) const {
    return options_.has_colors ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
  }
  void heading(const std::string& text) { out_ += "\n" + colored(text, "1") + "\n"; }
  [[nodiscard]] std::string since(std::int64_t time_ns) const {
    const std::int64_t passed = detail::elapsed(time_ns, evidence_.taken_ns);
    return passed == 0 ? "-" : detail::text_of_duration(passed);
  }

  // Returns the launch that best shows the location of the rank: one that has not ended, otherwise the last.
  static std::pair<const Group*, const CollectiveCall*> last_of(const Rank& rank) {
    std::pair<const Group*, const CollectiveCall*> last = {nullptr, nullptr};
    for (const Group& group : rank.groups) {
      for (const CollectiveCall& launch : group.launches) {
        const auto order = [](const CollectiveCall& one) {
          return std::tuple(!one.has_ended(), std::max({one.asked_ns, one.begun_ns, one.ended_ns}));
        };
        if (last.second == nullptr || order(launch) >= order(*last.second)) last = {&group, &launch};
      }
    }
    return last;
  }

  static std::string memory_text(const Rank& rank) {
    std::string text;
    for (const DeviceMemory& memory : rank.memory) {
      text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", visible(memory.device),
                          format_bytes(memory.live_nbytes), format_bytes(memory.mapped_nbytes));
      if (memory.refused_nbytes != 0) text += fmt::format(" ({} rejected)", format_bytes(memory.refused_nbytes));
    }
    return text.empty() ? "-" : text;
  }

  static std::string state_text(const Rank& rank) {
    std::string text = to_string(rank.state);
    if (rank.signal != 0) text += " (" + detail::text_of_signal(rank.signal) + ")";
    return text;
  }

  void table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
      widths.resize(std::max(widths.size(), row.size()), 0);
      for (std::size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], std::min(row[i].size(), kWidestCell));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::string line = " ";
      for (std::size_t k = 0; k < rows[i].size(); ++k) {
        line += k + 1 == rows[i].size() ? " " + rows[i][k] : fmt::format(" {:<{}} ", rows[i][k], widths[k]);
      }
      out_ += (i == 0 ? colored(line, "1") : line) + "\n";
    }
  }

  void show_ranks() {
    std::vector<std::vector<std::string>> rows = {
        {"rank", "state", "annotations", "operation", "stage", "for", "memory"}};
    for (const Rank& rank : evidence_.ranks) {
      if (!has(rank.rank)) continue;
      const auto [group, launch] = last_of(rank);
      const std::string annotations = detail::text_of_annotations(rank);
      std::vector<std::string> row = {std::to_string(rank.rank), state_text(rank),
                                      annotations.empty() ? "-" : annotations};
      if (launch == nullptr) {
        row.insert(row.end(), {"-", "-", "-"});
      } else {
        row.push_back(fmt::format("{} #{} {}", visible(group->name), launch->collective_number, text_of(*launch)));
        row.push_back(text_of(launch->stage));
        row.push_back(since(std::max({launch->asked_ns, launch->begun_ns, launch->ended_ns})));
      }
      row.push_back(memory_text(rank));
      rows.push_back(std::move(row));
    }
    out_ += "\n";
    table(rows);
    for (const Rank& rank : evidence_.ranks) {
      if (has(rank.rank) && !rank.reason.empty()) {
        out_ += fmt::format("  rank {} reported: {}\n", rank.rank, detail::first_line(rank.reason));
      }
      if (has(rank.rank) && !rank.ended_by.empty()) {
        out_ += fmt::format("  rank {}: the launcher ended it: {}\n", rank.rank, detail::first_line(rank.ended_by));
      }
    }
  }

  // Among many ranks, only culprits and one rank that waits for them matter.
  [[nodiscard]] bool matters(int rank) const {
    if (evidence_.ranks.size() <= kManyRanks || !options_.ranks.empty()) return true;
    const std::vector<int>& culprits = found_.verdict.culprits;
    if (std::find(culprits.begin(), culprits.end(), rank) != culprits.end()) return true;
    return !found_.waits.empty() && found_.waits.front().rank == rank;
  }

  // Shows ranks with equal counts on one line, then their last launches.
  void show_groups() {
    using Key = std::pair<std::string, std::vector<int>>;
    using Progress = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
    std::map<Key, std::map<Progress, std::vector<int>>> groups;
    std::map<Key, std::vector<std::pair<int, const Group*>>> shown;
    std::map<Key, std::string> backends;
    for (const Rank& rank : evidence_.ranks) {
      for (const Group& group : rank.groups) {
        if (!has(rank.rank) || !has(group.name)) continue;
        const Key key = {group.name, group.ranks};
        groups[key][{group.asked, group.begun, group.ended}].push_back(rank.rank);
        backends.emplace(key, group.backend);
        if (matters(rank.rank)) shown[key].emplace_back(rank.rank, &group);
      }
    }
    for (const auto& [key, alike] : groups) {
      heading(fmt::format("group {} ({}{})", visible(key.first), text_of_ranks(key.second),
                          backends[key].empty() ? "" : ", " + visible(backends[key])));
      for (const auto& [progress, ranks] : alike) {
        out_ += fmt::format("  {}: {} enqueued, {} started, {} finished\n", text_of_ranks(ranks), std::get<0>(progress),
                            std::get<1>(progress), std::get<2>(progress));
      }
      for (const auto& [rank, group] : shown[key]) show_launches(rank, *group);
    }
  }

  void show_launches(int rank, const Group& group) {
    const std::size_t from = group.launches.size() - std::min(options_.last, group.launches.size());
    for (std::size_t i = from; i < group.launches.size(); ++i) {
      const CollectiveCall& launch = group.launches[i];
      std::string line =
          fmt::format("  rank {:<4} #{:<6} {:<9} {:<12}  {}", rank, launch.collective_number, text_of(launch.stage),
                      time_text(launch.begun_ns != 0 ? launch.begun_ns : launch.asked_ns), text_of(launch));
      if (!launch.failure.empty()) line += ", " + visible(launch.failure);
      if (!launch.label.empty()) line += ", label '" + visible(launch.label) + "'";
      out_ += line + "\n";
    }
  }

  void show_differences() {
    bool is_first = true;
    for (const Difference& one : found_.differences) {
      if (!has(one.group)) continue;
      if (is_first) heading("differences");
      is_first = false;
      out_ += fmt::format("  group {}, collective {}:\n", visible(one.group), one.collective_number);
      for (const Side& side : one.sides)
        out_ += fmt::format("    {}: {}\n", text_of_ranks(side.ranks), visible(side.what));
    }
  }

  void show_waits() {
    // group, operation and peer: the waiting ranks
    std::map<std::tuple<std::string, std::string, int>, std::vector<int>> alike;
    std::map<std::tuple<std::string, std::string, int>, std::int64_t> since_of;
    for (const Wait& wait : found_.waits) {
      if (!has(wait.group) || (!has(wait.rank) && !has(wait.peer))) continue;
      const auto key = std::tuple(wait.group, wait.what, wait.peer);
      alike[key].push_back(wait.rank);
      std::int64_t& first = since_of[key];
      if (first == 0 || wait.since_ns < first) first = wait.since_ns;
    }
    if (!alike.empty()) heading("waits");
    std::size_t lines = 0;
    for (const auto& [key, ranks] : alike) {
      if (++lines > kMaxLines) break;
      const auto& [group, what, peer] = key;
      out_ +=
          fmt::format("  {} {} for rank {} in {} of group {}, for {}\n", text_of_ranks(ranks),
                      ranks.size() == 1 ? "waits" : "wait", peer, visible(what), visible(group), since(since_of[key]));
    }
    if (alike.size() > kMaxLines) out_ += fmt::format("  and {} more\n", alike.size() - kMaxLines);
    for (const std::vector<Wait>& cycle : found_.cycles) {
      heading("deadlock cycle");
      for (const Wait& wait : cycle) {
        out_ += fmt::format("  rank {} waits for rank {} in {} of group {}\n", wait.rank, wait.peer, visible(wait.what),
                            visible(wait.group));
      }
    }
  }

  void show_stragglers() {
    bool is_first = true;
    for (const Straggler& one : found_.stragglers) {
      if (!has(one.group) || !has(one.rank)) continue;
      if (is_first) heading("stragglers");
      is_first = false;
      out_ +=
          fmt::format("  rank {} was the last in {} of {} collectives of group {}, {:.1f} ms after the median rank\n",
                      one.rank, one.last_to_come, one.collectives, visible(one.group), one.late_ms);
    }
  }

  void show_problems() {
    if (evidence_.problems.empty()) return;
    heading("problems");
    for (const std::string& problem : evidence_.problems) out_ += "  " + visible(problem) + "\n";
  }

  void show_verdict() {
    const bool is_well = found_.verdict.fault == Fault::kNone;
    for (const Verdict& other : found_.others) {
      out_ += fmt::format("\nalso: {} ({}, {} confidence)\n", visible(other.sentence), to_string(other.fault),
                          to_string(other.confidence));
      out_ += fmt::format("next: {}\n", visible(other.advice));
    }
    out_ += "\n" + colored("verdict: " + visible(found_.verdict.sentence), is_well ? "1;32" : "1;31") + "\n";
    out_ += fmt::format("confidence: {} ({})\n", to_string(found_.verdict.confidence), to_string(found_.verdict.fault));
    out_ += fmt::format("next: {}\n", visible(found_.verdict.advice));
  }

  const Evidence& evidence_;
  const Explanation& found_;
  const ShowOptions& options_;
  std::string out_;
};

}  // namespace

std::string to_text(const Evidence& evidence, const Explanation& found, const ShowOptions& options) {
  return Text(evidence, found, options).shown();
}

}  // namespace tessera::analysis
