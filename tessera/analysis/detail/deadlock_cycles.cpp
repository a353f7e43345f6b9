// Finds deadlock cycles, and operations that all ranks reached and that do not finish.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::int64_t kLongMove = 10'000'000'000;  // large transfers take time

std::vector<int> waiters_of(const Material& material, const UnfinishedCollective& meeting) {
  std::vector<int> ranks;
  for (const Waiter& waiter : meeting.waiters) {
    ranks.push_back(material.overview.groups[meeting.group].members[waiter.member].rank);
  }
  return ranks;
}

// If most ranks wait in one collective, those that wait in another called them in a different order. A rank that waits
// in a cycle and that no member waits for is not part of it.
std::vector<int> culprits_of(const Material& material, const std::vector<std::size_t>& cycle) {
  std::set<int> awaited;
  for (const std::size_t at : cycle) {
    const UnfinishedCollective& meeting = material.waits.meetings[at];
    for (const std::size_t member : meeting.absent) {
      awaited.insert(material.overview.groups[meeting.group].members[member].rank);
    }
  }
  std::set<int> all;
  const UnfinishedCollective* largest = nullptr;
  for (const std::size_t at : cycle) {
    const UnfinishedCollective& meeting = material.waits.meetings[at];
    for (const int rank : waiters_of(material, meeting)) {
      if (awaited.contains(rank)) all.insert(rank);
    }
    if (largest == nullptr || meeting.waiters.size() > largest->waiters.size()) largest = &meeting;
  }
  std::set<int> odd = all;
  for (const int rank : waiters_of(material, *largest)) odd.erase(rank);
  const bool is_clear = !odd.empty() && odd.size() < all.size() - odd.size();
  const std::set<int>& chosen = is_clear ? odd : all;
  return {chosen.begin(), chosen.end()};
}

std::string text_of_way(const std::vector<Wait>& way) {
  constexpr std::size_t kMaxSteps = 6;
  std::string text;
  for (std::size_t i = 0; i < way.size() && i < kMaxSteps; ++i) {
    text += fmt::format("{}rank {} waits for rank {} in {} ({})", i == 0 ? "" : ", ", way[i].rank, way[i].peer,
                        way[i].what, visible(way[i].group));
  }
  if (way.size() > kMaxSteps) text += fmt::format(", and {} more", way.size() - kMaxSteps);
  return text;
}

bool is_message_cycle(const Material& material, const std::vector<std::size_t>& cycle) {
  return std::all_of(cycle.begin(), cycle.end(),
                     [&](std::size_t at) { return material.waits.meetings[at].is_message; });
}

}  // namespace

void find_cycles(const Material& material, std::vector<Finding>& findings) {
  const std::vector<std::vector<Wait>> ways = ways_around(material.overview, material.waits);
  for (const std::vector<std::size_t>& cycle : material.waits.cycles) {
    std::set<int> all;
    for (const std::size_t at : cycle) {
      for (const int rank : waiters_of(material, material.waits.meetings[at])) all.insert(rank);
    }
    const auto way = std::find_if(ways.begin(), ways.end(), [&](const std::vector<Wait>& one) {
      return !one.empty() && all.contains(one.front().rank);
    });
    if (way == ways.end() || cycle.empty()) continue;
    const UnfinishedCollective& first = material.waits.meetings[cycle.front()];
    Finding finding{.strength = Strength::kConcluded, .waiting = all.size(), .when_ns = way->front().since_ns};
    finding.involved.assign(all.begin(), all.end());
    Verdict& verdict = finding.verdict;
    verdict.fault = Fault::kCycle;
    verdict.culprits = culprits_of(material, cycle);
    verdict.group = material.overview.groups[first.group].name;
    verdict.collective_number = first.is_message ? 0 : first.collective_number;
    const bool is_odd = verdict.culprits.size() < all.size();
    verdict.confidence = is_odd ? Confidence::kMedium : Confidence::kHigh;
    verdict.sentence = fmt::format("deadlock between {}: {}", text_of_ranks(finding.involved), text_of_way(*way));
    if (is_odd)
      verdict.sentence += fmt::format("; {} called the collectives in a different order from most ranks",
                                      text_of_ranks(verdict.culprits));
    if (is_message_cycle(material, cycle)) {
      verdict.advice = "let one of them receive before it sends, or coalesce the operations of a rank into one launch";
    } else {
      verdict.advice =
          fmt::format("let all ranks enqueue the operations of these groups in the same order; look at {} first",
                      text_of_ranks(verdict.culprits));
    }
    findings.push_back(std::move(finding));
  }
}

void find_slow_operations(const Material& material, std::vector<Finding>& findings) {
  for (const UnfinishedCollective& meeting : material.waits.meetings) {
    if (!meeting.is_old || meeting.waiters.empty() || !meeting.absent.empty() || !meeting.unsure.empty()) continue;
    if (meeting.waiters.front().waited_ns < kLongMove && !meeting.has_timed_out) continue;
    const GroupView& group = material.overview.groups[meeting.group];
    const std::vector<int> waiters = waiters_of(material, meeting);
    const Waiter& longest = meeting.waiters.front();
    Finding finding{.strength = Strength::kWeak, .waiting = waiters.size(), .involved = waiters};
    Verdict& verdict = finding.verdict;
    verdict.group = group.name;
    verdict.collective_number = meeting.is_message ? 0 : meeting.collective_number;
    verdict.confidence = Confidence::kLow;
    const bool has_met = std::any_of(meeting.waiters.begin(), meeting.waiters.end(), [](const Waiter& waiter) {
      return waiter.launch->stage == Stage::kMet || waiter.launch->met_ns != 0;
    });
    const std::string what = text_with_group(material, meeting);
    verdict.fault = has_met ? Fault::kSlow : Fault::kUnknown;
    if (waiters.size() < meeting.ended.size() && !meeting.is_message) {
      verdict.fault = Fault::kSlow;
      verdict.culprits = waiters;
      verdict.sentence = fmt::format("{} still in {} after {}; all other ranks have finished it",
                                     text_of_ranks(waiters) + (waiters.size() == 1 ? " is" : " are"), what,
                                     text_of_duration(longest.waited_ns));
    } else {
      verdict.sentence = fmt::format(
          "all ranks reached {}, and it has not finished after {}: {}", what, text_of_duration(longest.waited_ns),
          has_met ? "it is transferring data, or its backend is stuck" : "its backend records no details");
    }
    verdict.advice = fmt::format(
        "look at the machine and the network under {}; tessera watch shows whether it makes progress",
        group.members[longest.member].group == nullptr || group.members[longest.member].group->backend.empty()
            ? "this group"
            : "backend " + visible(group.members[longest.member].group->backend));
    findings.push_back(std::move(finding));
  }
}

}  // namespace tessera::analysis::detail
