// Ranks that others wait for and that do not wait themselves: the ends of chains of waits. Such a rank is held by its
// own stream or its host code, or it ended. A waiting rank is never blamed here.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/whereabouts.h"
#include "tessera/analysis/detail/wording.h"
#include "tessera/base/bytes.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::int64_t kRecent = 1'000'000'000;     // a rank with later activity is on its way
constexpr std::int64_t kLongWait = 10'000'000'000;  // such a wait is not accidental

// Reason for the absence of a rank.
struct Held {
  Fault fault = Fault::kAbsent;
  const CollectiveCall* asked = nullptr;  // its launch, reached late or not at all
  std::int64_t late_ns = 0;               // delay of its arrival; 0: it has not arrived
};

class Absences {
 public:
  Absences(const Material& material, std::vector<Finding>& findings) : material_(material), findings_(findings) {}

  void find() {
    for (const UnfinishedCollective& meeting : material_.waits.meetings) {
      if (meeting.waiters.empty()) continue;
      if (meeting.is_old || meeting.has_failed) find_ended(meeting);
      if (!meeting.is_old) continue;
      find_roots(meeting);
      find_unsure(meeting);
    }
    for (const auto& [key, ranks] : sorted_roots()) add_roots(*key.first, key.second, ranks);
  }

 private:
  using Key = std::pair<const UnfinishedCollective*, Fault>;

  [[nodiscard]] const GroupView& group_of(const UnfinishedCollective& meeting) const {
    return material_.overview.groups[meeting.group];
  }
  // Returns true if the rank waits in another operation, or in a group creation.
  [[nodiscard]] bool waits_elsewhere(int rank) const {
    const Rank* known = material_.overview.find(rank);
    if (known != nullptr &&
        std::any_of(known->creations.begin(), known->creations.end(),
                    [](const GroupCreation& creation) { return creation.stage == Stage::kBegun; })) {
      return true;
    }
    const auto found = material_.waits.meetings_of.find(rank);
    if (found == material_.waits.meetings_of.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(),
                       [&](std::size_t at) { return material_.waits.meetings[at].is_old; });
  }
  [[nodiscard]] static bool is_gone(const GroupMember& member) {
    return member.standing == RankPosition::kGone || member.standing == RankPosition::kStopped;
  }
  [[nodiscard]] std::int64_t began_ns(const UnfinishedCollective& meeting) const {
    std::int64_t first = 0;
    for (const Waiter& waiter : meeting.waiters) {
      const std::int64_t time = material_.overview.shared_time(
          group_of(meeting).members[waiter.member].rank,
          waiter.launch->begun_ns != 0 ? waiter.launch->begun_ns : waiter.launch->asked_ns);
      if (time != 0 && (first == 0 || time < first)) first = time;
    }
    return first;
  }
  [[nodiscard]] std::vector<int> waiters_of(const UnfinishedCollective& meeting) const {
    std::vector<int> ranks;
    for (const Waiter& waiter : meeting.waiters) ranks.push_back(group_of(meeting).members[waiter.member].rank);
    return ranks;
  }

  // Finds ranks that ended normally with one operation fewer than the waiting ones; or those had one more.
  void find_ended(const UnfinishedCollective& meeting) {
    const GroupView& group = group_of(meeting);
    std::vector<int> ended;
    bool has_other = false;
    for (const std::size_t at : meeting.absent) {
      const bool is_ended = group.members[at].standing == RankPosition::kEnded;
      if (is_ended) ended.push_back(group.members[at].rank);
      has_other = has_other || is_gone(group.members[at]);
    }
    if (ended.empty() || has_other) return;
    const std::vector<int> waiters = waiters_of(meeting);
    const std::string what = text_with_group(material_, meeting);
    Finding finding{.strength = Strength::kConcluded, .waiting = waiters.size(), .when_ns = began_ns(meeting)};
    Verdict& verdict = finding.verdict;
    verdict.group = group.name;
    verdict.collective_number = meeting.is_message ? 0 : meeting.collective_number;
    if (ended.size() < waiters.size()) {
      verdict.fault = Fault::kAbsent;
      verdict.culprits = ended;
      verdict.confidence = meeting.is_old ? Confidence::kHigh : Confidence::kMedium;
      verdict.sentence =
          fmt::format("{} ended normally without reaching {}: {}{}", text_of_ranks(ended), what,
                      text_of_fewer(meeting, ended.size()), text_of_waiting(waiters.size(), ended.size()));
      verdict.advice = fmt::format(
          "look for a path on which {} skips one: a shorter loop, fewer batches, a condition that differs between "
          "ranks",
          text_of_ranks(ended));
    } else {
      const bool is_clear = ended.size() > waiters.size() && !meeting.is_message;
      verdict.fault = Fault::kMismatch;
      if (is_clear) verdict.culprits = waiters;
      verdict.confidence = is_clear ? Confidence::kMedium : Confidence::kLow;
      verdict.sentence = fmt::format("{} reached {}, and {} ended normally without it: {}", text_of_ranks(waiters),
                                     what, text_of_ranks(ended),
                                     is_clear ? "it ran one operation more than the others"
                                              : "one side ran one operation more, or the other one fewer");
      verdict.advice = fmt::format("compare the loops of {} and {}: count the calls of this operation",
                                   text_of_ranks(waiters), text_of_ranks(ended));
    }
    finding.involved = ended;
    finding.involved.insert(finding.involved.end(), waiters.begin(), waiters.end());
    findings_.push_back(std::move(finding));
  }

  // Describes how many operations it ran, where the others ran one more, and which it may have skipped.
  [[nodiscard]] std::string text_of_fewer(const UnfinishedCollective& meeting, std::size_t ended) const {
    std::string did = fmt::format("{} reached {}, the others {}", ended == 1 ? "it" : "they",
                                  meeting.collective_number - 1, meeting.collective_number);
    if (meeting.is_message) return did;
    const Waiter& waiter = meeting.waiters.front();
    const GroupMember& other = group_of(meeting).members[waiter.member];
    std::uint64_t first = meeting.collective_number;
    while (first > 1) {
      const CollectiveCall* before = collective_at(other, first - 1);
      if (before == nullptr || !is_alike(*before, *waiter.launch)) break;
      --first;
    }
    if (first == meeting.collective_number) return did;
    return did +
           fmt::format("; {} to {} are equal, and it may have skipped any of them", first, meeting.collective_number);
  }

  // Returns true if the absence of a member from a meeting counts. If a rank is gone or ended without it, or the run
  // was ended from outside, the other absent ranks may have been on their way.
  [[nodiscard]] bool counts(const UnfinishedCollective& meeting, const GroupMember& member) const {
    if (meeting.has_timed_out || meeting.waiters[0].waited_ns >= kLongWait) return true;
    const GroupView& group = group_of(meeting);
    if (std::any_of(group.members.begin(), group.members.end(), is_gone)) return false;
    if (std::any_of(meeting.absent.begin(), meeting.absent.end(),
                    [&](std::size_t at) { return group.members[at].standing == RankPosition::kEnded; })) {
      return false;
    }
    return member.standing != RankPosition::kTold ||
           std::any_of(meeting.waiters.begin(), meeting.waiters.end(),
                       [](const Waiter& waiter) { return waiter.launch->stage == Stage::kFailed; });
  }

  // Finds ranks at the ends of chains; each is reported for the meeting that has waited longest for it.
  void find_roots(const UnfinishedCollective& meeting) {
    const GroupView& group = group_of(meeting);
    for (const std::size_t at : meeting.absent) {
      const GroupMember& member = group.members[at];
      const bool can_be = member.standing == RankPosition::kAtWork || member.standing == RankPosition::kTold ||
                          member.standing == RankPosition::kVictim;
      if (!can_be || member.known == nullptr || waits_elsewhere(member.rank) || !counts(meeting, member)) continue;
      const Held held = what_holds(meeting, at);
      const auto [place, is_new] = roots_.emplace(member.rank, Root{&meeting, at, held});
      if (!is_new && place->second.meeting->waiters[0].waited_ns < meeting.waiters[0].waited_ns) {
        place->second = {&meeting, at, held};
      }
    }
  }

  [[nodiscard]] Held what_holds(const UnfinishedCollective& meeting, std::size_t at) const {
    const GroupMember& member = group_of(meeting).members[at];
    if (std::binary_search(meeting.too_late.begin(), meeting.too_late.end(), at)) {
      const CollectiveCall* launch = collective_at(member, meeting.collective_number);
      if (launch == nullptr) return {Fault::kSlow, nullptr, 0};
      const std::int64_t asked = material_.overview.shared_time(member.rank, launch->asked_ns);
      const std::int64_t late = elapsed(
          began_ns(meeting), material_.overview.shared_time(member.rank, std::max(launch->begun_ns, launch->asked_ns)));
      // It enqueued while the others waited, and its stream reached it after they had failed.
      const bool is_of_stream = launch->replay == 0 && launch->asked_ns > 0 && launch->begun_ns > 0 &&
                                2 * elapsed(began_ns(meeting), asked) < meeting.waiters[0].waited_ns;
      return {is_of_stream ? Fault::kStream : Fault::kSlow, launch, late};
    }
    if (const CollectiveCall* asked = pending_for(meeting, member)) return {Fault::kStream, asked, 0};
    if (refusing_memory(*member.known) != nullptr) return {Fault::kOutOfMemory, nullptr, 0};
    const std::int64_t active = material_.overview.shared_time(member.rank, last_activity_ns(*member.known));
    const bool is_recent = active > 0 && material_.overview.evidence->taken_ns > 0 &&
                           elapsed(active, material_.overview.evidence->taken_ns) < kRecent &&
                           active > began_ns(meeting);
    return {member.known->state == RankState::kRunning && is_recent ? Fault::kSlow : Fault::kAbsent, nullptr, 0};
  }

  // Returns the launch of the member for this meeting that its stream has not reached.
  [[nodiscard]] const CollectiveCall* pending_for(const UnfinishedCollective& meeting,
                                                  const GroupMember& member) const {
    if (meeting.is_signal) return nullptr;
    if (!meeting.is_message) {
      const auto found = std::find_if(member.pending.begin(), member.pending.end(), [&](const Numbered& one) {
        return one.collective_number == meeting.collective_number;
      });
      return found == member.pending.end() ? nullptr : found->launch;
    }
    const Waiter& waiter = meeting.waiters.front();
    const bool is_send = waiter.message != nullptr && waiter.message->kind == "recv";
    const auto found =
        std::find_if(member.pending_messages.begin(), member.pending_messages.end(),
                     [&](const Message& one) { return one.peer == waiter.member && one.is_send == is_send; });
    return found == member.pending_messages.end() ? nullptr : found->launch;
  }

  [[nodiscard]] std::vector<std::pair<Key, std::vector<int>>> sorted_roots() const {
    std::map<std::pair<std::size_t, Fault>, std::pair<Key, std::vector<int>>> sorted;
    for (const auto& [rank, root] : roots_) {
      const auto number = static_cast<std::size_t>(root.meeting - material_.waits.meetings.data());
      auto& [key, ranks] = sorted[{number, root.held.fault}];
      key = {root.meeting, root.held.fault};
      ranks.push_back(rank);
    }
    std::vector<std::pair<Key, std::vector<int>>> list;
    for (auto& [at, entry] : sorted) list.push_back(std::move(entry));
    return list;
  }

  void add_roots(const UnfinishedCollective& meeting, Fault fault, const std::vector<int>& ranks) {
    const GroupView& group = group_of(meeting);
    Finding finding{.strength = Strength::kConcluded, .waiting = meeting.waiters.size(), .when_ns = began_ns(meeting)};
    Verdict& verdict = finding.verdict;
    verdict.fault = fault;
    verdict.group = group.name;
    verdict.collective_number = meeting.is_message ? 0 : meeting.collective_number;
    finding.involved = waiters_of(meeting);
    // If few members miss most of a group, the many may be right, and the few ahead of them.
    const std::size_t all_roots =
        static_cast<std::size_t>(std::count_if(meeting.absent.begin(), meeting.absent.end(), [&](std::size_t at) {
          return roots_.contains(group.members[at].rank);
        }));
    if (fault != Fault::kStream && all_roots > meeting.waiters.size()) {
      verdict.fault = Fault::kUnknown;
      finding.strength = Strength::kWeak;
      verdict.sentence =
          fmt::format("only {} reached {}; {} did not, or are missing; {}", text_of_ranks(finding.involved),
                      text_with_group(material_, meeting), text_of_ranks(ranks),
                      whereabouts(material_.overview, *material_.overview.find(ranks.front())));
      verdict.advice = fmt::format("check whether {} must call it at all, and what blocks the others",
                                   text_of_ranks(finding.involved));
      findings_.push_back(std::move(finding));
      return;
    }
    verdict.culprits = ranks;
    verdict.sentence = sentence_of(meeting, fault, ranks);
    verdict.advice = advice_of(fault, ranks);
    verdict.confidence = confidence_of(meeting, ranks);
    const bool is_weak =
        std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return is_drawn_along(meeting, rank); });
    if (is_weak) {
      finding.strength = Strength::kWeak;
      verdict.confidence = Confidence::kLow;
    }
    findings_.push_back(std::move(finding));
  }

  // A rank that failed because of others in another group is absent for that reason.
  [[nodiscard]] bool is_drawn_along(const UnfinishedCollective& meeting, int rank) const {
    const Root& root = roots_.at(rank);
    const GroupMember& member = group_of(meeting).members[root.member];
    return member.standing == RankPosition::kVictim && root.held.fault != Fault::kSlow;
  }

  [[nodiscard]] Confidence confidence_of(const UnfinishedCollective& meeting, const std::vector<int>& ranks) const {
    Confidence confidence =
        meeting.has_timed_out || meeting.waiters[0].waited_ns >= kLongWait ? Confidence::kHigh : Confidence::kMedium;
    for (const int rank : ranks) {
      const Root& root = roots_.at(rank);
      const GroupMember& member = group_of(meeting).members[root.member];
      const bool is_blurred = member.known->state == RankState::kUnknown || member.is_counted ||
                              !meeting.unsure.empty() ||
                              (!member.is_seen() && member.known->state != RankState::kRunning);
      if (is_blurred) confidence = Confidence::kMedium;
    }
    return confidence;
  }

  [[nodiscard]] std::string sentence_of(const UnfinishedCollective& meeting, Fault fault,
                                        const std::vector<int>& ranks) const {
    const Rank& first = *material_.overview.find(ranks.front());
    const Root& root = roots_.at(ranks.front());
    const std::string who = text_of_ranks(ranks);
    const std::string what = text_with_group(material_, meeting);
    const std::string end = text_of_waiting(meeting.waiters.size(), ranks.size());
    const std::string one = ranks.size() == 1 ? "" : fmt::format("of rank {}: ", first.rank);
    const std::string where = one + whereabouts(material_.overview, first);
    if (fault == Fault::kStream && root.held.late_ns > 0) {
      return fmt::format(
          "{} enqueued {} in time, but stream {} of {} reached it {} after the first rank, when it had failed; earlier "
          "work blocked the stream{}",
          who, what, root.held.asked->stream, visible(root.held.asked->device), text_of_duration(root.held.late_ns),
          end);
    }
    if (fault == Fault::kStream) {
      const std::int64_t since = material_.overview.shared_time(first.rank, root.held.asked->asked_ns);
      const std::int64_t passed = elapsed(since, material_.overview.evidence->taken_ns);
      return fmt::format(
          "{} enqueued {}{}, but stream {} of {} has not reached it; earlier work blocks the stream; {}{}", who, what,
          passed == 0 ? "" : " " + text_of_duration(passed) + " ago", root.held.asked->stream,
          visible(root.held.asked->device), stream_text(first, *root.held.asked), end);
    }
    if (fault == Fault::kSlow && root.held.late_ns > 0) {
      return fmt::format("{} reached {} {} after the first rank, when it had failed{}", who, what,
                         text_of_duration(root.held.late_ns), end);
    }
    if (fault == Fault::kSlow)
      return fmt::format("{} has not reached {} and is still running: {}{}", who, what, where, end);
    if (fault == Fault::kOutOfMemory) {
      const DeviceMemory& memory = *refusing_memory(first);
      return fmt::format("{} ran out of memory on {} (requested {}, {} in use) and did not reach {}: {}{}", who,
                         visible(memory.device), format_bytes(memory.refused_nbytes), format_bytes(memory.live_nbytes),
                         what, where, end);
    }
    if (meeting.is_signal) return signal_sentence(meeting) + where;
    const bool has_joined = group_of(meeting).members[root.member].is_seen();
    return fmt::format("{} did not reach {}: {}{}{}", who, what, has_joined ? "" : "it has not joined the group; ",
                       where, end);
  }

  // Returns "rank 0 waits for signal 3 on channel 1 of pool 'grads' (group world) from rank 2, for 31 s; rank 2: ".
  [[nodiscard]] std::string signal_sentence(const UnfinishedCollective& meeting) const {
    const GroupView& group = group_of(meeting);
    const Waiter& waiter = meeting.waiters.front();
    const int peer = group.members[static_cast<std::size_t>(waiter.message->peer)].rank;
    return fmt::format(
        "rank {} waits for signal {} on channel {} of pool '{}' (group {}) from rank {}, for {}; rank {} has not sent "
        "it: ",
        group.members[waiter.member].rank, meeting.collective_number, waiter.message->channel,
        visible(waiter.launch->label), visible(group.name), peer, text_of_duration(waiter.waited_ns), peer);
  }

  static std::string stream_text(const Rank& rank, const CollectiveCall& asked) {
    for (const LastKernel& last : rank.launches) {
      if (last.device == asked.device && last.stream == asked.stream)
        return "the last launch on the stream is " + visible(last.name);
    }
    return "no launch on the stream is known";
  }

  [[nodiscard]] std::string advice_of(Fault fault, const std::vector<int>& ranks) const {
    const Rank& first = *material_.overview.find(ranks.front());
    const Root& root = roots_.at(ranks.front());
    if (fault == Fault::kStream) {
      return fmt::format(
          "look at the earlier work of rank {} on stream {} of {}: a kernel that does not end, or a wait for an event "
          "or a value that does not arrive",
          first.rank, root.held.asked->stream, visible(root.held.asked->device));
    }
    if (fault == Fault::kOutOfMemory) return fmt::format("look at the memory of rank {}: tessera memory", first.rank);
    if (fault == Fault::kSlow)
      return fmt::format("find out why rank {} takes longer than the others, or give the group a longer deadline",
                         first.rank);
    const std::string label = last_label(first);
    const std::string after = label.empty() ? "" : fmt::format(", after label '{}'", label);
    if (!first.annotations.empty())
      return fmt::format(
          "look at the code of rank {} in annotation {}{}{}", first.rank, text_of_annotations(first), after,
          first.state == RankState::kRunning ? fmt::format("; a debugger shows the stack of its process {}", first.pid)
                                             : "");
    if (first.state != RankState::kRunning) return fmt::format("look at the output of rank {}{}", first.rank, after);
    return fmt::format("look at the stack of process {} of rank {}{}", first.pid, first.rank, after);
  }

  // Finds ranks without a record, if all others arrived.
  void find_unsure(const UnfinishedCollective& meeting) {
    if (!meeting.absent.empty() || meeting.unsure.empty()) return;
    const GroupView& group = group_of(meeting);
    if (std::any_of(group.members.begin(), group.members.end(), is_gone)) return;
    std::vector<int> ranks;
    bool is_all_missing = true;
    for (const std::size_t at : meeting.unsure) {
      ranks.push_back(group.members[at].rank);
      is_all_missing =
          is_all_missing && (group.members[at].known == nullptr || left_no_record(*group.members[at].known));
    }
    const bool can_tell = is_all_missing && ranks.size() < group.members.size() - ranks.size() + 1 &&
                          ranks.size() <= meeting.waiters.size();
    Finding finding{.strength = can_tell ? Strength::kConcluded : Strength::kWeak,
                    .waiting = meeting.waiters.size(),
                    .when_ns = began_ns(meeting)};
    finding.involved = waiters_of(meeting);
    Verdict& verdict = finding.verdict;
    verdict.fault = can_tell ? Fault::kAbsent : Fault::kUnknown;
    if (can_tell) verdict.culprits = ranks;
    verdict.group = group.name;
    verdict.collective_number = meeting.is_message ? 0 : meeting.collective_number;
    verdict.confidence = can_tell ? Confidence::kMedium : Confidence::kLow;
    const std::string why =
        is_all_missing ? "left no record" : "cannot be located: its record does not contain its last operation";
    verdict.sentence = fmt::format("{} {}, and {} in {}", text_of_ranks(ranks), why,
                                   text_of_count(meeting.waiters.size(), "rank waits", "ranks wait"),
                                   text_with_group(material_, meeting));
    if (can_tell) verdict.sentence += ", which all others reached";
    verdict.advice = fmt::format("find the record file or the output of {}", text_of_ranks(ranks));
    findings_.push_back(std::move(finding));
  }

  struct Root {
    const UnfinishedCollective* meeting = nullptr;
    std::size_t member = 0;
    Held held = {};
  };

  const Material& material_;
  std::vector<Finding>& findings_;
  std::map<int, Root> roots_ = {};
};

}  // namespace

void find_absences(const Material& material, std::vector<Finding>& findings) { Absences(material, findings).find(); }

}  // namespace tessera::analysis::detail
