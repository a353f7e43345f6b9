#include "tessera/analysis/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/analysis/detail/wording.h"
#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis {
namespace {

using nlohmann::json;

constexpr std::uint64_t kTailOfRank = 2048;  // bytes of metrics.jsonl: a line has about 400
constexpr std::uint64_t kMinTail = 64 << 10;
constexpr std::uint64_t kMaxTail = 8 << 20;
constexpr std::size_t kMaxDepth = 64;

std::optional<double> number_in(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> integer_in(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::string_view word_of(RankState state) {
  switch (state) {
    case RankState::kRunning: return "running";
    case RankState::kStopped: return "stopped";
    case RankState::kEnded: return "ended";
    case RankState::kFailed: return "failed";
    case RankState::kDied: return "died";
    case RankState::kMissing: return "no record";
    case RankState::kUnknown: break;
  }
  return "not seen";
}

bool is_down(RankState state) {
  return state == RankState::kStopped || state == RankState::kFailed || state == RankState::kDied ||
         state == RankState::kMissing;
}

// Operation of a rank: the longest running one; if none runs, the one enqueued first.
struct InFlight {
  const Group* group = nullptr;
  const CollectiveCall* launch = nullptr;
  std::int64_t since_ns = std::numeric_limits<std::int64_t>::max();
};

InFlight in_flight(const Rank& rank) {
  InFlight runs;
  InFlight waits;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (launch.has_ended() || launch.operations.empty()) continue;
      const bool is_begun = launch.stage != Stage::kAsked;
      const std::int64_t since = is_begun && launch.begun_ns > 0 ? launch.begun_ns : launch.asked_ns;
      InFlight& oldest = is_begun ? runs : waits;
      if (oldest.launch == nullptr || since < oldest.since_ns) oldest = {&group, &launch, since};
    }
  }
  return runs.launch != nullptr ? runs : waits;
}

std::string text_of(const InFlight& flight) {
  const CollectiveCall& launch = *flight.launch;
  std::string text = flight.group->name;
  if (launch.collective_number != 0) text += fmt::format(" {}", launch.collective_number);
  text += ": " + detail::text_of(launch);
  switch (launch.stage) {
    case Stage::kAsked: return text + ", queued";
    case Stage::kBegun: return text + ", waits for others";
    default: return text + ", moves bytes";
  }
}

LiveRow row_of(const Evidence& evidence, const Rank& rank, std::int64_t hung_after_ns) {
  LiveRow row;
  row.rank = rank.rank;
  row.state = word_of(rank.state);
  if (rank.signal != 0) row.state += fmt::format(" (signal {})", rank.signal);
  for (const OpenAnnotation& annotation : rank.annotations) {
    if (annotation.name == "step") row.step = annotation.value;
  }
  for (const Group& group : rank.groups) row.ended += group.ended;
  for (const DeviceMemory& memory : rank.memory) row.memory_nbytes = row.memory_nbytes.value_or(0) + memory.live_nbytes;
  const InFlight flight = in_flight(rank);
  if (flight.launch != nullptr) {
    row.operation = text_of(flight);
    row.doing = flight.launch->label;
    if (flight.since_ns > 0) row.in_flight_ns = std::max<std::int64_t>(evidence.taken_ns - flight.since_ns, 0);
  }
  if (row.doing.empty() && !rank.annotations.empty()) {
    const auto innermost =
        std::max_element(rank.annotations.begin(), rank.annotations.end(),
                         [](const OpenAnnotation& a, const OpenAnnotation& b) { return a.since_ns < b.since_ns; });
    row.doing = fmt::format("{} {}", innermost->name, innermost->value);
  }
  const bool is_over = rank.state == RankState::kEnded;
  if (is_down(rank.state)) {
    row.failure = RankCondition::kDown;
  } else if (!is_over && row.in_flight_ns.value_or(0) >= hung_after_ns) {
    row.failure = RankCondition::kLate;
  }
  return row;
}

std::string summary_of(const Evidence& evidence) {
  std::map<RankState, int> counts;
  for (const Rank& rank : evidence.ranks) ++counts[rank.state];
  std::string text = fmt::format("{} rank{}", evidence.ranks.size(), evidence.ranks.size() == 1 ? "" : "s");
  const char* separator = ": ";
  for (const auto& [state, count] : counts) {
    text += fmt::format("{}{} {}", separator, count, word_of(state));
    separator = ", ";
  }
  if (!evidence.before.empty()) text += "; " + printable(evidence.before);
  return text;
}

}  // namespace

std::map<int, StepMetrics> parse_metrics(std::string_view tail) {
  std::map<int, StepMetrics> found;
  while (!tail.empty()) {
    const std::size_t end = tail.find('\n');
    if (end == std::string_view::npos) break;  // still being written
    const std::string_view text = tail.substr(0, end);
    tail.remove_prefix(end + 1);
    if (tessera::detail::json_depth(text) > kMaxDepth) continue;
    const json line = json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    const auto rank = integer_in(line, "rank");
    const auto step = integer_in(line, "step");
    if (!rank || !step || *rank < 0 || *rank > std::numeric_limits<int>::max()) continue;
    StepMetrics metrics;
    metrics.step = *step;
    metrics.loss = number_in(line, "loss");
    metrics.tokens_per_second = number_in(line, "tokens_per_second");
    if (const auto memory = line.find("memory"); memory != line.end() && memory->is_object()) {
      for (const auto& [owner, nbytes] : memory->items()) {
        if (owner == "total" || !nbytes.is_number_unsigned()) continue;
        metrics.memory_nbytes = metrics.memory_nbytes.value_or(0) + nbytes.get<std::uint64_t>();
      }
    }
    found[static_cast<int>(*rank)] = metrics;
  }
  return found;
}

std::map<int, StepMetrics> read_metrics(const std::string& directory, int world_size) {
  const std::uint64_t wanted =
      std::clamp(static_cast<std::uint64_t>(std::max(world_size, 0)) * kTailOfRank, kMinTail, kMaxTail);
  try {
    const RegularFile file(directory + "/metrics.jsonl");
    const std::uint64_t taken = std::min(file.nbytes(), wanted);
    return parse_metrics(file.read(file.nbytes() - taken, taken));
  } catch (const IoError&) {  // a run without metrics
    return {};
  }
}

LiveView live_view(const Evidence& evidence, const std::map<int, StepMetrics>& metrics, const LiveView* before,
                   std::int64_t hung_after_ns) {
  LiveView view;
  view.source = evidence.source;
  view.taken_ns = evidence.taken_ns;
  view.summary = summary_of(evidence);
  view.problems = evidence.problems.size();
  std::map<int, std::uint64_t> ended;
  const std::int64_t passed_ns = before == nullptr ? 0 : evidence.taken_ns - before->taken_ns;
  if (passed_ns > 0) {
    for (const LiveRow& row : before->rows) ended[row.rank] = row.ended;
  }
  bool is_late = false;
  bool is_down_seen = false;
  for (const Rank& rank : evidence.ranks) {
    LiveRow row = row_of(evidence, rank, hung_after_ns);
    if (const auto told = metrics.find(rank.rank); told != metrics.end()) {
      if (!row.step) row.step = told->second.step;
      row.loss = told->second.loss;
      row.tokens_per_second = told->second.tokens_per_second;
      if (!row.memory_nbytes) row.memory_nbytes = told->second.memory_nbytes;
    }
    if (const auto earlier = ended.find(rank.rank); earlier != ended.end() && row.ended >= earlier->second) {
      row.launches_per_second = static_cast<double>(row.ended - earlier->second) * 1e9 / static_cast<double>(passed_ns);
    }
    is_late = is_late || row.failure == RankCondition::kLate;
    is_down_seen = is_down_seen || (row.failure == RankCondition::kDown && rank.state != RankState::kMissing);
    view.rows.push_back(std::move(row));
  }
  view.is_hung = is_late || is_down_seen;
  return view;
}

}  // namespace tessera::analysis
