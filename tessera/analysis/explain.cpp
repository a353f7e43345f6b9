#include "tessera/analysis/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis {
namespace {

using detail::Finding;
using detail::Material;
using detail::Strength;

constexpr std::size_t kMaxDifferences = 8;  // per group: later ones follow from the first
constexpr std::size_t kMaxWaits = 4096;     // pairs of ranks
constexpr std::size_t kMaxOthers = 16;      // verdicts after the first
constexpr std::size_t kMaxStragglers = 32;

// Orders by strength; among equal strengths one that blames a rank, then the earliest, then the one that most ranks
// wait for.
bool comes_before(const Finding& a, const Finding& b) {
  if (a.strength != b.strength) return a.strength > b.strength;
  if (a.verdict.culprits.empty() != b.verdict.culprits.empty()) return b.verdict.culprits.empty();
  if (a.strength == Strength::kConcluded && a.waiting != b.waiting) return a.waiting > b.waiting;
  const auto when = [](const Finding& one) { return static_cast<std::uint64_t>(one.when_ns) - 1; };  // 0 is last
  if (when(a) != when(b)) return when(a) < when(b);
  if (a.waiting != b.waiting) return a.waiting > b.waiting;
  return a.verdict.culprits < b.verdict.culprits;
}

// Returns true if earlier selected findings explain this one: a rank is blamed once; a blamed rank explains the other
// ranks that take part; after a difference nothing else of these ranks counts; and a weak finding is dropped after a
// strong one.
bool is_explained(const Finding& finding, const std::vector<const Finding*>& taken) {
  if (taken.empty()) return false;
  if (finding.strength == Strength::kWeak) return true;
  std::set<int> blamed;
  for (const Finding* one : taken) blamed.insert(one->verdict.culprits.begin(), one->verdict.culprits.end());
  if (finding.strength == Strength::kConcluded) {
    for (const Finding* one : taken) {
      if (one->verdict.fault == Fault::kMismatch) blamed.insert(one->involved.begin(), one->involved.end());
    }
  }
  const auto is_blamed = [&](int rank) { return blamed.contains(rank); };
  const std::vector<int>& culprits = finding.verdict.culprits;
  if (!culprits.empty()) return std::all_of(culprits.begin(), culprits.end(), is_blamed);
  return std::any_of(finding.involved.begin(), finding.involved.end(), is_blamed) ||
         std::any_of(taken.begin(), taken.end(), [&](const Finding* one) {
           return one->verdict.culprits.empty() && one->involved == finding.involved;
         });
}

std::string text_of_progress(const Material& material) {
  const detail::GroupView* largest = nullptr;
  std::uint64_t come = 0;
  for (const detail::GroupView& group : material.overview.groups) {
    if (largest != nullptr && group.members.size() <= largest->members.size()) continue;
    largest = &group;
    come = 0;
    for (const detail::GroupMember& member : group.members) come = std::max(come, member.come);
  }
  return largest == nullptr || come == 0
             ? std::string()
             : fmt::format(", after {} of group {}", detail::text_of_count(come, "collective", "collectives"),
                           detail::visible(largest->name));
}

Verdict no_fault(const Material& material) {
  const Evidence& evidence = *material.overview.evidence;
  std::vector<int> missing;
  std::vector<int> unknown;
  std::size_t ended = 0;
  for (const auto& [number, rank] : material.overview.ranks) {
    if (rank->state == RankState::kMissing) missing.push_back(number);
    if (rank->state == RankState::kUnknown) unknown.push_back(number);
    ended += rank->state == RankState::kEnded ? 1 : 0;
  }
  const std::size_t known = material.overview.ranks.size() - missing.size();
  Verdict verdict;
  verdict.confidence =
      missing.empty() && evidence.problems.empty() && unknown.empty() ? Confidence::kHigh : Confidence::kMedium;
  if (known == 0) {
    verdict.fault = Fault::kUnknown;
    verdict.confidence = Confidence::kLow;
    verdict.sentence = "no verdict: no rank left a record";
    verdict.advice = "check that this is the run directory";
    return verdict;
  }
  const std::string progress = text_of_progress(material);
  if (ended == known) {
    verdict.sentence =
        fmt::format("no fault: {} normally{}", detail::text_of_count(known, "rank ended", "ranks ended"), progress);
  } else if (unknown.size() + ended == known) {
    verdict.sentence = fmt::format("no fault found in the records of {}{}; it is unknown whether they still run",
                                   detail::text_of_count(known, "rank", "ranks"), progress);
  } else {
    verdict.sentence = fmt::format("no fault: {}{}, and no rank waits for long",
                                   detail::text_of_count(known - ended, "rank runs", "ranks run"), progress);
  }
  if (!missing.empty()) verdict.sentence += fmt::format("; nothing is known about {}", detail::text_of_ranks(missing));
  verdict.advice = missing.empty()
                       ? "no action is needed"
                       : fmt::format("find the record file of {} to be sure", detail::text_of_ranks(missing));
  return verdict;
}

std::vector<Difference> differences_of(const Material& material) {
  std::vector<Difference> differences;
  for (std::size_t i = 0; i < material.overview.groups.size(); ++i) {
    const detail::GroupView& group = material.overview.groups[i];
    for (const detail::Disagreement& found : material.disagreements[i]) {
      Difference difference{.group = group.name, .collective_number = found.collective_number};
      for (const detail::SideView& side : found.sides) {
        Side& told = difference.sides.emplace_back();
        for (const std::size_t member : side.members) told.ranks.push_back(group.members[member].rank);
        told.what = detail::text_of(*side.launch);
      }
      differences.push_back(std::move(difference));
    }
  }
  return differences;
}

Material material_of(const Evidence& evidence, std::vector<detail::Lateness>& late) {
  Material material;
  material.overview = detail::overview_of(evidence);
  material.waits = detail::waits_of(material.overview);
  for (const detail::GroupView& group : material.overview.groups) {
    const std::vector<detail::Came> all = detail::by_collective_number(group);
    material.disagreements.push_back(detail::disagreements_of(group, all, kMaxDifferences));
    material.messages.push_back(detail::message_disagreements_of(group, kMaxDifferences));
    detail::add_late_ranks(group, all, late);
  }
  std::stable_sort(late.begin(), late.end(), [](const detail::Lateness& a, const detail::Lateness& b) {
    return a.straggler.late_ms > b.straggler.late_ms;
  });
  return material;
}

}  // namespace

std::string to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "none";
    case Fault::kMismatch: return "mismatch";
    case Fault::kAbsent: return "absent";
    case Fault::kDied: return "died";
    case Fault::kFailed: return "failed";
    case Fault::kOutOfMemory: return "out of memory";
    case Fault::kStopped: return "stopped";
    case Fault::kCycle: return "circle";
    case Fault::kStream: return "stream";
    case Fault::kSlow: return "slow";
    case Fault::kUnknown: break;
  }
  return "unknown";
}

std::string to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow: return "low";
    case Confidence::kMedium: return "medium";
    case Confidence::kHigh: break;
  }
  return "high";
}

Explanation explain(const Evidence& evidence) {
  std::vector<detail::Lateness> late;
  const Material material = material_of(evidence, late);
  std::vector<Finding> findings;
  detail::find_own_faults(material, findings);
  detail::find_differences(material, findings);
  detail::find_absences(material, findings);
  detail::find_not_made(material, findings);
  detail::find_cycles(material, findings);
  detail::find_slow_operations(material, findings);
  if (findings.empty()) detail::find_leftovers(material, findings);
  if (findings.empty()) detail::find_stragglers(late, findings);
  std::stable_sort(findings.begin(), findings.end(), comes_before);

  Explanation found;
  std::vector<const Finding*> taken;
  for (const Finding& finding : findings) {
    if (is_explained(finding, taken)) continue;
    taken.push_back(&finding);
    if (taken.size() == 1) {
      found.verdict = finding.verdict;
    } else if (found.others.size() < kMaxOthers) {
      found.others.push_back(finding.verdict);
    }
  }
  if (taken.empty()) found.verdict = no_fault(material);
  found.differences = differences_of(material);
  found.waits = detail::pairs_of(material.overview, material.waits, kMaxWaits);
  found.cycles = detail::ways_around(material.overview, material.waits);
  for (const detail::Lateness& one : late) {
    if (found.stragglers.size() < kMaxStragglers) found.stragglers.push_back(one.straggler);
  }
  return found;
}

}  // namespace tessera::analysis
