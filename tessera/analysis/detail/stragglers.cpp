#include "tessera/analysis/detail/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kMinCollectives = 5;  // minimum for blame
constexpr double kMinLate = 10;             // milliseconds, minimum for blame
constexpr double kMinShare = 0.25;          // fraction of the time, minimum for blame
constexpr double kShownLate = 0.1;          // milliseconds: minimum for a line

template <class T>
T median(std::vector<T>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// No rank leaves these before all have arrived, whether or not the transport records that time.
bool leaves_together(const CollectiveCall& launch) {
  if (launch.operations.empty()) return false;
  const std::string& kind = launch.operations.front().kind;
  return kind == "all_reduce" || kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all" ||
         kind == "barrier";
}

// Returns the wait of each rank in one collective, in milliseconds; nothing unless known for all.
std::vector<double> waits_in(std::span<const Came> came) {
  const auto has_met = [](const Came& one) { return one.launch->met_ns > 0; };
  const bool is_met = std::all_of(came.begin(), came.end(), has_met);
  std::vector<double> waits;
  for (const Came& one : came) {
    const CollectiveCall& launch = *one.launch;
    if (launch.stage != Stage::kDone || launch.begun_ns <= 0) return {};
    if (!is_met && (launch.ended_ns <= 0 || !leaves_together(launch))) return {};
    waits.push_back(static_cast<double>(elapsed(launch.begun_ns, is_met ? launch.met_ns : launch.ended_ns)) / 1e6);
  }
  return waits;
}

// Returns the time from one collective to the next on this rank, in milliseconds.
double usual_interval(const GroupMember& member) {
  std::vector<std::int64_t> intervals;
  for (std::size_t i = 1; i < member.collectives.size(); ++i) {
    intervals.push_back(elapsed(member.collectives[i - 1].launch->begun_ns, member.collectives[i].launch->begun_ns));
  }
  return intervals.empty() ? 0 : static_cast<double>(median(intervals)) / 1e6;
}

}  // namespace

void add_late_ranks(const GroupView& group, const std::vector<Came>& all, std::vector<Lateness>& late) {
  if (group.members.size() < 2) return;
  std::vector<std::vector<double>> later(group.members.size());
  std::vector<std::uint64_t> last(group.members.size(), 0);
  std::uint64_t collectives = 0;
  for (std::size_t from = 0, to = 0; from < all.size(); from = to) {
    while (to < all.size() && all[to].collective_number == all[from].collective_number) ++to;
    if (to - from != group.members.size()) continue;
    const std::span<const Came> came = std::span(all).subspan(from, to - from);
    const std::vector<double> waits = waits_in(came);
    if (waits.empty()) continue;
    std::vector<double> sorted = waits;
    const double middle = median(sorted);
    for (std::size_t i = 0; i < waits.size(); ++i) later[came[i].member].push_back(middle - waits[i]);
    ++last[came[static_cast<std::size_t>(std::min_element(waits.begin(), waits.end()) - waits.begin())].member];
    ++collectives;
  }
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (collectives < 2 || 2 * last[i] < collectives) continue;
    Lateness one;
    one.straggler = {group.members[i].rank, group.name, collectives, last[i], median(later[i])};
    if (one.straggler.late_ms < kShownLate) continue;
    const double interval = usual_interval(group.members[i]);
    one.share = interval > 0 ? one.straggler.late_ms / interval : 0;
    late.push_back(std::move(one));
  }
}

void find_stragglers(const std::vector<Lateness>& late, std::vector<Finding>& findings) {
  for (const Lateness& one : late) {
    const Straggler& who = one.straggler;
    if (who.collectives < kMinCollectives || 5 * who.last_to_come < 4 * who.collectives) continue;
    if (who.late_ms < kMinLate || one.share < kMinShare) continue;
    Finding finding{.strength = Strength::kWeak};
    Verdict& verdict = finding.verdict;
    verdict.fault = Fault::kSlow;
    verdict.culprits = {who.rank};
    verdict.group = who.group;
    verdict.confidence = Confidence::kMedium;
    verdict.sentence = fmt::format(
        "rank {} is slow: it was the last in {} of {} collectives of group {}, {:.0f} ms later than the "
        "median rank, which costs the others {:.0f} % of their time",
        who.rank, who.last_to_come, who.collectives, visible(who.group), who.late_ms, std::min(1.0, one.share) * 100);
    verdict.advice = fmt::format(
        "compare the work of rank {} with that of the others, and look for other processes on its machine", who.rank);
    findings.push_back(std::move(finding));
  }
}

}  // namespace tessera::analysis::detail
