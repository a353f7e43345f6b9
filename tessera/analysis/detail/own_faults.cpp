// Ranks that ended by their own fault, or do not run: findings from the record and the launcher of one rank.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/analysis/detail/findings.h"
#include "tessera/analysis/detail/whereabouts.h"
#include "tessera/analysis/detail/wording.h"
#include "tessera/base/bytes.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kMaxFindings = 64;
constexpr int kSigKill = 9;

// Returns "and did not reach collective 17 ...", "in collective 17 ..." or "after collective 16 ...".
std::string text_of_place(const Material& material, const Rank& rank, const Missed& missed) {
  if (missed.meeting != nullptr && missed.is_absent) {
    return " and did not reach " + text_with_group(material, *missed.meeting);
  }
  const CollectiveCall* last = nullptr;
  const Group* where = nullptr;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (launch.stage == Stage::kAsked || launch.operations.empty()) continue;
      const bool is_later =
          last == nullptr || std::max(launch.begun_ns, launch.ended_ns) >= std::max(last->begun_ns, last->ended_ns);
      // An unfinished launch is the location, whatever ended since.
      if (last != nullptr && !last->has_ended() && launch.has_ended()) continue;
      if (!is_later && (last->has_ended() == launch.has_ended())) continue;
      last = &launch;
      where = &group;
    }
  }
  if (rank.is_unread) return "; its record is missing or cannot be read, so its last operation is unknown";
  if (left_no_record(rank)) return " and left no record";
  if (last == nullptr && rank.lost > 0) return "; its record does not contain its last operation";
  if (last == nullptr) return rank.groups.empty() ? " before it had joined a group" : " before its first operation";
  const std::string what =
      fmt::format("{} {} of group {}, {}", last->is_message() ? "point-to-point operation" : "collective",
                  last->collective_number, visible(where->name), text_of(*last));
  return (last->has_ended() ? " after " : " in ") + what;
}

std::string text_of_memory(const Rank& rank) {
  const DeviceMemory* memory = refusing_memory(rank);
  if (memory == nullptr) return "";
  std::string text = fmt::format(" on {}: it requested {} with {} in use and {} reserved", visible(memory->device),
                                 format_bytes(memory->refused_nbytes), format_bytes(memory->live_nbytes),
                                 format_bytes(memory->mapped_nbytes));
  if (!memory->owners.empty()) {
    text += fmt::format(", most of it by '{}' ({})", visible(memory->owners[0].first),
                        format_bytes(memory->owners[0].second));
  }
  return text;
}

// The error of the allocator names the limit that the kernel set on the process.
bool has_address_limit(const Rank& rank) { return rank.reason.find("(ulimit -v)") != std::string::npos; }

// Describes the end without its location.
std::string text_of_end(const Rank& rank, Fault fault) {
  switch (fault) {
    case Fault::kOutOfMemory:
      if (has_address_limit(rank)) return fmt::format("reached a limit of its process: {};", first_line(rank.reason));
      return "ran out of memory" + text_of_memory(rank) + (refusing_memory(rank) != nullptr ? "," : "");
    case Fault::kStopped: return "was stopped by a signal or a debugger";
    case Fault::kDied:
      if (rank.signal != 0) return fmt::format("was killed by {}", text_of_signal(rank.signal));
      return "died without a message";
    default: break;
  }
  return rank.reason.empty() ? "failed with an unknown error" : fmt::format("failed: {};", first_line(rank.reason));
}

std::string advice_of(const Rank& rank, Fault fault) {
  const std::string record = rank.file.empty() ? "its output" : "its output and " + visible(rank.file);
  switch (fault) {
    case Fault::kOutOfMemory: {
      if (has_address_limit(rank)) return fmt::format("raise the limit of rank {}: ulimit -v unlimited", rank.rank);
      const DeviceMemory* memory = refusing_memory(rank);
      if (memory == nullptr || memory->owners.empty())
        return fmt::format("look at the memory of rank {}: tessera memory", rank.rank);
      return fmt::format("free or shrink the memory of '{}' on rank {}, which holds {} of {}",
                         visible(memory->owners[0].first), rank.rank, format_bytes(memory->owners[0].second),
                         visible(memory->device));
    }
    case Fault::kStopped:
      if (rank.signal != 0 || !rank.ended_by.empty()) {
        return fmt::format(
            "find out what stopped process {} of rank {}, SIGSTOP or a debugger; the launcher {} it later", rank.pid,
            rank.rank, rank.signal != 0 ? "killed" : "ended");
      }
      return rank.pid == 0 ? fmt::format("continue rank {}: kill -CONT its process", rank.rank)
                           : fmt::format("continue rank {}: kill -CONT {}{}", rank.rank, rank.pid,
                                         rank.host.empty() ? "" : " on " + visible(rank.host));
    case Fault::kDied:
      if (rank.signal == kSigKill) {
        return fmt::format(
            "find out what killed process {} of rank {}: the kernel if the machine ran out of memory (dmesg), a "
            "scheduler or a user",
            rank.pid, rank.rank);
      }
      return fmt::format("look at {} of rank {} and at its core dump, if it exists", record, rank.rank);
    default: break;
  }
  const std::string label = last_label(rank);
  return fmt::format("look at {} of rank {}{}", record, rank.rank,
                     label.empty() ? "" : ", and at its code around label '" + label + "'");
}

Fault fault_of(const Rank& rank) {
  if (rank.state == RankState::kStopped) return Fault::kStopped;
  if (ran_out_of_memory(rank)) return Fault::kOutOfMemory;
  return rank.state == RankState::kFailed ? Fault::kFailed : Fault::kDied;
}

// If all ranks died for unknown reasons, those that waited for others did not cause it.
bool is_drawn_along(const Material& material, const Rank& rank, const std::unordered_map<int, Missed>& missed) {
  const auto says_nothing = [](const Rank& one) {
    return one.state == RankState::kDied && (one.signal == 0 || one.signal == kSigKill);
  };
  const std::vector<Rank>& ranks = material.overview.evidence->ranks;
  if (ranks.size() < 2 || !says_nothing(rank) || !std::all_of(ranks.begin(), ranks.end(), says_nothing)) return false;
  const auto found = missed.find(rank.rank);
  if (found != missed.end() && found->second.is_absent) return false;
  return std::any_of(missed.begin(), missed.end(), [](const auto& one) { return one.second.is_absent; });
}

// The trainer stopped all ranks, and each exited with an error code.
void find_stopped_training(const Material& material, std::vector<Finding>& findings) {
  const std::string& reason = material.overview.evidence->stopped;
  if (reason.empty()) return;
  Finding finding{.strength = Strength::kSeen};
  finding.verdict.fault = Fault::kFailed;
  finding.verdict.sentence = "the trainer stopped the run: " + first_line(reason);
  finding.verdict.advice =
      "look at the loss before that step, and at bad-step-N in the run directory with its parameters and gradients; a "
      "lower learning rate, gradient clipping or other data may help";
  finding.verdict.confidence = Confidence::kHigh;
  findings.push_back(std::move(finding));
}

}  // namespace

void find_own_faults(const Material& material, std::vector<Finding>& findings) {
  const std::unordered_map<int, Missed> missed_by_rank = missed_ranks(material);
  const bool is_stopped = !material.overview.evidence->stopped.empty();
  find_stopped_training(material, findings);
  std::size_t added = 0;
  for (const Rank& rank : material.overview.evidence->ranks) {
    if (material.overview.find(rank.rank) != &rank || added == kMaxFindings) continue;
    const RankPosition standing = material.overview.standings.at(rank.rank);
    if (standing != RankPosition::kGone && standing != RankPosition::kStopped) continue;
    if (is_drawn_along(material, rank, missed_by_rank)) continue;
    if (is_stopped && rank.signal == 0 && !names_its_error(rank)) continue;
    const Fault fault = fault_of(rank);
    const auto at = missed_by_rank.find(rank.rank);
    const Missed missed = at == missed_by_rank.end() ? Missed{} : at->second;
    Finding finding{.strength = Strength::kSeen, .waiting = missed.waiting};
    finding.when_ns = material.overview.shared_time(rank.rank, rank.last_ns);
    Verdict& verdict = finding.verdict;
    verdict.fault = fault;
    verdict.culprits = {rank.rank};
    if (missed.meeting != nullptr) {
      verdict.group = material.overview.groups[missed.meeting->group].name;
      verdict.collective_number = missed.meeting->is_message ? 0 : missed.meeting->collective_number;
    }
    verdict.sentence =
        fmt::format("rank {} {}{}", rank.rank, text_of_end(rank, fault), text_of_place(material, rank, missed));
    if (!rank.annotations.empty()) verdict.sentence += "; it was in annotation " + text_of_annotations(rank);
    verdict.sentence += text_of_waiting(missed.waiting, 1);
    verdict.advice = advice_of(rank, fault);
    const bool is_bare = rank.state == RankState::kDied && rank.signal == 0;
    // Out of memory is inferred if the rank left an exit code and no error.
    const bool is_concluded = fault == Fault::kOutOfMemory && !names_its_error(rank);
    const bool is_unnamed = fault == Fault::kFailed && rank.reason.empty();
    verdict.confidence = is_bare || is_concluded || is_unnamed ? Confidence::kMedium : Confidence::kHigh;
    findings.push_back(std::move(finding));
    ++added;
  }
}

std::unordered_map<int, Missed> missed_ranks(const Material& material) {
  std::unordered_map<int, Missed> found;
  for (const UnfinishedCollective& meeting : material.waits.meetings) {
    const GroupView& group = material.overview.groups[meeting.group];
    const auto take = [&](std::size_t member, std::size_t waiting, bool is_absent) {
      Missed& missed = found[group.members[member].rank];
      const bool is_better = is_absent != missed.is_absent ? is_absent : waiting > missed.waiting;
      if (missed.meeting == nullptr || is_better) missed = {&meeting, waiting, is_absent};
    };
    for (const std::size_t member : meeting.absent) take(member, meeting.waiters.size(), true);
    if (!meeting.absent.empty()) continue;
    for (const Waiter& waiter : meeting.waiters) take(waiter.member, meeting.waiters.size() - 1, false);
  }
  return found;
}

std::string text_of_waiting(std::size_t waiting, std::size_t culprits) {
  if (waiting == 0) return "";
  return fmt::format("; {} for {}", text_of_count(waiting, "rank waits", "ranks wait"), culprits == 1 ? "it" : "them");
}

std::string text_with_group(const Material& material, const UnfinishedCollective& meeting) {
  const std::string text = text_of(material.overview, meeting);
  const std::size_t comma = text.find(',');
  const std::string group = " of group " + visible(material.overview.groups[meeting.group].name);
  return comma == std::string::npos ? text + group : text.substr(0, comma) + group + text.substr(comma);
}

}  // namespace tessera::analysis::detail
