// Findings of last resort: ranks that never joined a group, that were requested to end, or that failed for reasons
// outside of the evidence.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/whereabouts.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

std::vector<const Rank*> ranks_that(const Material& material, RankPosition standing) {
  std::vector<const Rank*> ranks;
  for (const Rank& rank : material.overview.evidence->ranks) {
    if (material.overview.find(rank.rank) == &rank && material.overview.standings.at(rank.rank) == standing)
      ranks.push_back(&rank);
  }
  return ranks;
}

std::vector<int> numbers_of(const std::vector<const Rank*>& ranks) {
  std::vector<int> numbers;
  for (const Rank* rank : ranks) numbers.push_back(rank->rank);
  return numbers;
}

// Finds running ranks that are not in a group whose other members have failed.
void find_not_joined(const Material& material, std::vector<Finding>& findings) {
  for (const GroupView& group : material.overview.groups) {
    std::vector<int> outside;
    std::size_t seen = 0;
    bool has_failed = false;
    for (const GroupMember& member : group.members) {
      seen += member.is_seen() ? 1 : 0;
      has_failed = has_failed || member.standing == RankPosition::kVictim;
      if (!member.is_seen() && member.known != nullptr && member.standing != RankPosition::kVictim)
        outside.push_back(member.rank);
    }
    if (outside.empty() || !has_failed || outside.size() > seen) continue;
    Finding finding{.waiting = seen};
    Verdict& verdict = finding.verdict;
    verdict.fault = Fault::kAbsent;
    verdict.culprits = outside;
    verdict.group = group.name;
    verdict.confidence = Confidence::kMedium;
    verdict.sentence = fmt::format("{} has not joined group {}, which {} ranks have joined: {}", text_of_ranks(outside),
                                   visible(group.name), seen,
                                   whereabouts(material.overview, *material.overview.find(outside.front())));
    verdict.advice = fmt::format("look at the output of {} before it creates its groups", text_of_ranks(outside));
    findings.push_back(std::move(finding));
  }
}

void find_told(const Material& material, std::vector<Finding>& findings) {
  const std::vector<const Rank*> told = ranks_that(material, RankPosition::kTold);
  if (told.empty()) return;
  Finding finding{.involved = numbers_of(told)};
  Verdict& verdict = finding.verdict;
  verdict.fault = Fault::kDied;
  verdict.confidence = Confidence::kMedium;
  verdict.sentence = fmt::format("the run was ended from outside: {} received {}", text_of_ranks(numbers_of(told)),
                                 text_of_signal(told.front()->signal));
  if (!told.front()->ended_by.empty()) verdict.sentence += ": " + first_line(told.front()->ended_by);
  verdict.advice = "find out what ended it: a user, a scheduler or a time limit; no rank had a fault before";
  findings.push_back(std::move(finding));
}

// Finds ranks without a record that failed according to the launcher.
void find_failed_unread(const Material& material, std::vector<Finding>& findings) {
  std::vector<const Rank*> failed = ranks_that(material, RankPosition::kMissing);
  std::erase_if(failed,
                [](const Rank* rank) { return rank->state != RankState::kFailed && rank->state != RankState::kDied; });
  if (failed.empty()) return;
  Finding finding{.involved = numbers_of(failed)};
  Verdict& verdict = finding.verdict;
  verdict.fault = failed.front()->state == RankState::kFailed ? Fault::kFailed : Fault::kDied;
  if (failed.size() == 1) verdict.culprits = finding.involved;
  verdict.confidence = failed.size() == 1 ? Confidence::kMedium : Confidence::kLow;
  verdict.sentence = fmt::format("{} failed: {}, and left no record", text_of_ranks(finding.involved),
                                 first_line(failed.front()->reason));
  verdict.advice =
      fmt::format("look at the output of {}; recording may be off (TESSERA_RECORD_BYTES, TESSERA_RECORD_DIR)",
                  text_of_ranks(finding.involved));
  findings.push_back(std::move(finding));
}

void find_missing(const Material& material, std::vector<Finding>& findings) {
  const std::vector<const Rank*> missing = ranks_that(material, RankPosition::kMissing);
  if (missing.empty() || missing.size() < material.overview.ranks.size()) return;
  Finding finding;
  finding.verdict.fault = Fault::kUnknown;
  finding.verdict.sentence = fmt::format("no verdict: none of {} left a record", text_of_ranks(numbers_of(missing)));
  finding.verdict.advice =
      "check that this is the run directory and that recording was on (TESSERA_RECORD_BYTES, TESSERA_RECORD_DIR)";
  findings.push_back(std::move(finding));
}

// If all ranks died in the same way at the same operation, they cannot be distinguished.
void find_all_died(const Material& material, std::vector<Finding>& findings) {
  const std::vector<const Rank*> gone = ranks_that(material, RankPosition::kGone);
  if (gone.empty()) return;
  Finding finding{.involved = numbers_of(gone)};
  finding.verdict.fault = Fault::kDied;
  finding.verdict.sentence =
      fmt::format("{} died, and the records do not show which was first", text_of_ranks(numbers_of(gone)));
  finding.verdict.advice = "look at the output of the ranks, and at the machine: memory, power, a scheduler";
  findings.push_back(std::move(finding));
}

// Returns the last launch of a rank, if other ranks caused its failure; null if it continued or did not fail.
const CollectiveCall* last_failure(const Rank& rank, const Group*& where) {
  const CollectiveCall* last = nullptr;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (launch.stage == Stage::kAsked || launch.operations.empty()) continue;
      if (last != nullptr && launch.begun_ns < last->begun_ns) continue;
      last = &launch;
      where = &group;
    }
  }
  return last != nullptr && failed_by_others(*last) ? last : nullptr;
}

// Groups of the same ranks share a transport, which fails if ranks use them in different orders.
void tell_order_of_groups(std::map<std::string, std::vector<int>>& by_group, Verdict& verdict) {
  if (by_group.size() != 2) return;
  const auto& [first, low] = *by_group.begin();
  const auto& [second, high] = *by_group.rbegin();
  const bool is_first_larger = low.size() >= high.size();
  std::vector<int> few = is_first_larger ? high : low;
  std::vector<int> most = is_first_larger ? low : high;
  std::sort(few.begin(), few.end());
  verdict.group = is_first_larger ? second : first;
  verdict.sentence =
      fmt::format("{} reached group {} where {} reached group {}: the order differs", text_of_ranks(few),
                  visible(verdict.group), text_of_ranks(most), visible(is_first_larger ? first : second));
  verdict.advice = "let all ranks enqueue the operations of these groups in the same order";
  if (few.size() == most.size()) return;
  verdict.culprits = few;
  verdict.confidence = Confidence::kMedium;
}

void find_failed(const Material& material, std::vector<Finding>& findings) {
  const std::vector<const Rank*> victims = ranks_that(material, RankPosition::kVictim);
  if (victims.empty()) return;
  const auto first =
      std::find_if(victims.begin(), victims.end(), [](const Rank* rank) { return !rank->reason.empty(); });
  Finding finding{.waiting = victims.size(), .involved = numbers_of(victims)};
  Verdict& verdict = finding.verdict;
  // A rank that the launcher ended may have failed in the same operation.
  std::map<std::string, std::vector<int>> by_group;
  for (const auto& [number, rank] : material.overview.ranks) {
    const Group* where = nullptr;
    const CollectiveCall* failed = last_failure(*rank, where);
    if (failed != nullptr && failed->failure == "mismatch") by_group[where->name].push_back(number);
  }
  const bool is_named = first != victims.end() && (*first)->reason.find("mismatch:") != std::string::npos;
  const bool is_mismatch = is_named || !by_group.empty();
  verdict.fault = is_mismatch ? Fault::kMismatch : Fault::kUnknown;
  verdict.confidence = Confidence::kLow;
  const std::vector<const Rank*> missing = ranks_that(material, RankPosition::kMissing);
  verdict.sentence = fmt::format("{} failed{}, and the records do not show why", text_of_ranks(numbers_of(victims)),
                                 first == victims.end() ? "" : ": " + first_line((*first)->reason));
  if (!missing.empty())
    verdict.sentence += fmt::format("; nothing is known about {}", text_of_ranks(numbers_of(missing)));
  verdict.advice = missing.empty() ? "look at the output of the rank that the error names"
                                   : fmt::format("find the record file of {}", text_of_ranks(numbers_of(missing)));
  if (is_mismatch) {
    if (by_group.size() == 1) verdict.group = by_group.begin()->first;
    tell_order_of_groups(by_group, verdict);
  }
  findings.push_back(std::move(finding));
}

// Finds operations that failed, though all ranks run and the records show no reason: mismatched sizes, which are not
// recorded, or a rank that is exiting at this moment.
void find_failed_launches(const Material& material, std::vector<Finding>& findings) {
  std::vector<int> ranks;
  std::map<std::string, std::vector<int>> by_group;
  const CollectiveCall* first = nullptr;
  const Group* where = nullptr;
  for (const auto& [number, rank] : material.overview.ranks) {
    const Group* group = nullptr;
    const CollectiveCall* failed = last_failure(*rank, group);
    if (failed == nullptr) continue;
    ranks.push_back(number);
    if (failed->failure == "mismatch") by_group[group->name].push_back(number);
    if (first != nullptr && (failed->failure != "mismatch" || first->failure == "mismatch")) continue;
    first = failed;
    where = group;
  }
  if (first == nullptr) return;
  std::sort(ranks.begin(), ranks.end());
  Finding finding{.waiting = ranks.size(), .involved = ranks};
  Verdict& verdict = finding.verdict;
  verdict.fault = first->failure == "mismatch" ? Fault::kMismatch : Fault::kUnknown;
  verdict.group = where->name;
  verdict.collective_number = first->is_message() ? 0 : first->collective_number;
  verdict.confidence = Confidence::kLow;
  verdict.sentence =
      fmt::format("{} {} of group {}, {}, failed on {} ({}), and the records do not show why",
                  first->is_message() ? "point-to-point operation" : "collective", first->collective_number,
                  visible(where->name), text_of(*first), text_of_ranks(ranks), visible(first->failure));
  verdict.advice = "look at the error of these ranks: it names the ranks that differ or did not arrive";
  tell_order_of_groups(by_group, verdict);
  findings.push_back(std::move(finding));
}

}  // namespace

void find_leftovers(const Material& material, std::vector<Finding>& findings) {
  find_not_joined(material, findings);
  if (findings.empty()) find_failed(material, findings);
  if (findings.empty()) find_failed_unread(material, findings);
  if (findings.empty()) find_told(material, findings);
  if (findings.empty()) find_all_died(material, findings);
  if (findings.empty()) find_failed_launches(material, findings);
  if (findings.empty()) find_missing(material, findings);
}

}  // namespace tessera::analysis::detail
