// Collectives and point-to-point operations in which ranks differ. The minority is to blame; without a majority, no
// rank is.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

std::vector<int> ranks_of(const GroupView& group, const std::vector<std::size_t>& members) {
  std::vector<int> ranks;
  for (const std::size_t member : members) ranks.push_back(group.members[member].rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string text_of_sides(const GroupView& group, const Disagreement& found) {
  constexpr std::size_t kMaxSides = 4;
  std::string text;
  for (std::size_t i = 0; i < found.sides.size() && i < kMaxSides; ++i) {
    text += fmt::format("{}{} enqueued {}", i == 0 ? "" : ", ", text_of_ranks(ranks_of(group, found.sides[i].members)),
                        text_of(*found.sides[i].launch));
  }
  if (found.sides.size() > kMaxSides) text += fmt::format(", and {} more differ", found.sides.size() - kMaxSides);
  return text;
}

std::string sentence_of(const GroupView& group, const Disagreement& found) {
  const std::string name = visible(group.name);
  if (found.culprits.empty()) {
    return fmt::format("ranks of group {} differ in collective {}, without a majority: {}", name,
                       found.collective_number, text_of_sides(group, found));
  }
  const std::string who = text_of_ranks(ranks_of(group, found.culprits));
  const std::string they = found.culprits.size() == 1 ? "it" : "they";
  const std::string others = text_of_ranks(ranks_of(group, found.sides[0].members));
  const std::string theirs = text_of(*found.sides[0].launch);
  const std::string own = text_of(*found.sides[1].launch);
  std::string asked = fmt::format("{} enqueued {} as collective {} of group {}, but {} enqueued {}", who, own,
                                  found.collective_number, name, others, theirs);
  switch (found.shift) {
    case Shift::kSkipped:
      return fmt::format(
          "{} skipped collective {} of group {}, {}: {} continued with {} and {} one collective ahead of {}", who,
          found.collective_number, name, theirs, they, own, found.culprits.size() == 1 ? "is" : "are", others);
    case Shift::kAdded:
      return fmt::format("{} ran one collective more than {}: {} as collective {} of group {}, where the others ran {}",
                         who, others, own, found.collective_number, name, theirs);
    case Shift::kSwapped:
      return fmt::format("{} ran collectives {} and {} of group {} in reverse order: first {}, where {} ran {} first",
                         who, found.collective_number, found.collective_number + 1, name, own, others, theirs);
    case Shift::kPerhapsSkipped: return asked + ": " + they + " probably skipped that collective and ran the next one";
    case Shift::kPerhapsAdded: return asked + ": " + they + " probably ran the previous collective twice";
    case Shift::kNone: break;
  }
  return asked;
}

std::string advice_of(const GroupView& group, const Disagreement& found) {
  if (found.culprits.empty()) {
    return fmt::format("compare the code of {} with that of {} around {}",
                       text_of_ranks(ranks_of(group, found.sides[0].members)),
                       text_of_ranks(ranks_of(group, found.sides[1].members)),
                       found.sides[0].launch->label.empty() ? "this collective"
                                                            : "label '" + visible(found.sides[0].launch->label) + "'");
  }
  const CollectiveCall& own = *found.sides[1].launch;
  const CollectiveCall& theirs = *found.sides[0].launch;
  const std::string who = text_of_ranks(ranks_of(group, found.sides[1].members));
  std::string where = own.label.empty() ? "its operation " + std::to_string(own.task) + " of this group"
                                        : "label '" + visible(own.label) + "'";
  if (found.shift == Shift::kSkipped || found.shift == Shift::kPerhapsSkipped) {
    return fmt::format("look in the code of {} for a path that skips {}{}: a condition that differs between ranks", who,
                       text_of(theirs), theirs.label.empty() ? "" : " (label '" + visible(theirs.label) + "')");
  }
  return fmt::format("look at the code of {} around {}: it enqueued {}, but {} enqueued {}", who, where, text_of(own),
                     text_of_ranks(ranks_of(group, found.sides[0].members)), text_of(theirs));
}

void add(const Material& material, const GroupView& group, const Disagreement& found, std::vector<Finding>& findings) {
  Finding finding{.strength = Strength::kSeen};
  Verdict& verdict = finding.verdict;
  verdict.fault = Fault::kMismatch;
  verdict.culprits = ranks_of(group, found.culprits);
  verdict.group = group.name;
  verdict.collective_number = found.collective_number;
  verdict.sentence = sentence_of(group, found);
  verdict.advice = advice_of(group, found);
  verdict.confidence = found.culprits.empty() ? Confidence::kLow
                       : found.has_majority   ? Confidence::kHigh
                                              : Confidence::kMedium;
  for (const SideView& side : found.sides) {
    const std::vector<int> ranks = ranks_of(group, side.members);
    finding.involved.insert(finding.involved.end(), ranks.begin(), ranks.end());
    if (&side == &found.sides[0]) finding.waiting = ranks.size();
  }
  const std::size_t first = found.culprits.empty() ? found.sides[0].members[0] : found.culprits[0];
  if (const CollectiveCall* launch = collective_at(group.members[first], found.collective_number)) {
    finding.when_ns = material.overview.shared_time(group.members[first].rank,
                                                    launch->begun_ns != 0 ? launch->begun_ns : launch->asked_ns);
  }
  findings.push_back(std::move(finding));
}

void add(const Material& material, const GroupView& group, const MessageDisagreement& found,
         std::vector<Finding>& findings) {
  const int sender = group.members[found.sender].rank;
  const int receiver = group.members[found.receiver].rank;
  Finding finding{.strength = Strength::kSeen, .waiting = 1, .involved = {sender, receiver}};
  Verdict& verdict = finding.verdict;
  verdict.fault = Fault::kMismatch;
  verdict.group = group.name;
  verdict.confidence = Confidence::kLow;
  // Between two ranks there is no majority; earlier operations show which one changed.
  constexpr std::size_t kUsual = 2;
  if (found.like_send == 0 && found.like_recv >= kUsual) verdict.culprits = {sender};
  if (found.like_recv == 0 && found.like_send >= kUsual) verdict.culprits = {receiver};
  if (!verdict.culprits.empty()) verdict.confidence = Confidence::kMedium;
  const std::string sent = fmt::format("{}[{}]", visible(found.send->operation->dtype), found.send->operation->count);
  const std::string expected =
      fmt::format("{}[{}]", visible(found.recv->operation->dtype), found.recv->operation->count);
  verdict.sentence = fmt::format(
      "point-to-point operation {} of group {} from rank {} to rank {} differs: rank {} sent {}, rank {} expected {}",
      found.send->number, visible(group.name), sender, receiver, sender, sent, receiver, expected);
  if (!verdict.culprits.empty()) {
    verdict.sentence +=
        fmt::format("; rank {} is the one that changed: {} earlier operations were {}", verdict.culprits[0],
                    std::max(found.like_send, found.like_recv), verdict.culprits[0] == sender ? expected : sent);
  }
  const CollectiveCall& odd =
      verdict.culprits.empty() || verdict.culprits[0] == sender ? *found.send->launch : *found.recv->launch;
  verdict.advice = fmt::format("compare what rank {} sends with what rank {} expects{}", sender, receiver,
                               odd.label.empty() ? "" : " around label '" + visible(odd.label) + "'");
  finding.when_ns = material.overview.shared_time(sender, found.send->launch->asked_ns);
  findings.push_back(std::move(finding));
}

}  // namespace

void find_differences(const Material& material, std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < material.overview.groups.size(); ++i) {
    const GroupView& group = material.overview.groups[i];
    if (!material.disagreements[i].empty()) add(material, group, material.disagreements[i].front(), findings);
    for (const MessageDisagreement& found : material.messages[i]) add(material, group, found, findings);
  }
}

}  // namespace tessera::analysis::detail
