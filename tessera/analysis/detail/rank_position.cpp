#include "tessera/analysis/detail/rank_position.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace tessera::analysis::detail {
namespace {

constexpr int kSigHup = 1;
constexpr int kSigInt = 2;
constexpr int kSigAbrt = 6;
constexpr int kSigTerm = 15;

// Returns the kind of error that a message begins with: "timeout: group world: ..."; empty if none.
std::string_view kind_named(std::string_view reason) {
  constexpr std::array<std::string_view, 8> kKinds = {"invalid argument", "out of memory", "device error",
                                                      "timeout",          "aborted",       "mismatch",
                                                      "not supported",    "i/o error"};
  std::string_view named;
  std::size_t first = std::string_view::npos;
  for (const std::string_view kind : kKinds) {
    for (std::size_t at = reason.find(kind); at < first; at = reason.find(kind, at + 1)) {
      if (reason.substr(at + kind.size(), 1) != ":") continue;
      first = at;
      named = kind;
      break;
    }
  }
  return named;
}

// Returns true for the message of a launcher about the end of a process, which does not state the cause.
bool is_of_launcher(std::string_view reason) {
  return reason.starts_with("exited with") || reason.starts_with("was killed by");
}

bool has_failed_by_others(const Rank& rank) {
  const auto is_failed = [](const GroupCreation& creation) {
    return creation.stage == Stage::kFailed && (creation.failure == "timeout" || creation.failure == "aborted");
  };
  if (std::ranges::any_of(rank.creations, is_failed)) return true;
  return std::ranges::any_of(rank.groups, [](const Group& group) {
    return std::ranges::any_of(group.launches, failed_by_others) ||
           std::ranges::any_of(group.signals, failed_by_others);
  });
}

// Returns true if the rank enqueued an operation or opened an annotation after this time.
bool went_on_since(const Rank& rank, std::int64_t time_ns) {
  if (time_ns == 0) return false;
  const auto is_later = [&](const CollectiveCall& launch) { return launch.asked_ns > time_ns; };
  return std::ranges::any_of(rank.annotations,
                             [&](const OpenAnnotation& annotation) { return annotation.since_ns > time_ns; }) ||
         std::ranges::any_of(rank.groups,
                             [&](const Group& group) { return std::ranges::any_of(group.launches, is_later); });
}

// Returns whether its own message blames others; nothing if it does not state it.
std::optional<bool> blames_others(const Rank& rank) {
  if (!names_its_error(rank)) return std::nullopt;
  const std::string_view kind = kind_named(rank.reason);
  if (kind == "timeout" || kind == "aborted") return true;
  if (rank.reason.find("deadlock: every participant waits") != std::string::npos) return true;  // ranks in turns
  return kind == "mismatch" && rank.reason.find("group ") != std::string::npos;
}

}  // namespace

bool failed_by_others(const CollectiveCall& launch) {
  return launch.stage == Stage::kFailed &&
         (launch.failure == "timeout" || launch.failure == "aborted" || launch.failure == "mismatch");
}

bool left_no_record(const Rank& rank) {
  return rank.state == RankState::kMissing || rank.is_unread || (rank.file.empty() && rank.groups.empty());
}

RankPosition standing_of(const Rank& rank) {
  // The launcher knows the end of a rank without a record, but not whether others caused it. The launcher may kill a
  // rank that has recorded its failure and is about to exit.
  const bool had_failed = rank.state == RankState::kFailed && rank.signal != 0 && !rank.ended_by.empty();
  const bool is_by_itself = had_failed || (rank.ended_by.empty() && (rank.signal == 0 || rank.signal == kSigAbrt));
  if (left_no_record(rank) && is_of_launcher(rank.reason) && is_by_itself) return RankPosition::kMissing;
  switch (rank.state) {
    case RankState::kStopped: return RankPosition::kStopped;
    case RankState::kMissing: return RankPosition::kMissing;
    case RankState::kEnded: return has_failed_by_others(rank) ? RankPosition::kVictim : RankPosition::kEnded;
    case RankState::kRunning:
    case RankState::kUnknown: return RankPosition::kAtWork;
    case RankState::kFailed:
    case RankState::kDied: break;
  }
  if (!rank.ended_by.empty() && !had_failed && !names_its_error(rank)) {
    return rank.signal == 0 && has_failed_by_others(rank) ? RankPosition::kVictim : RankPosition::kTold;
  }
  if (rank.signal == kSigTerm || rank.signal == kSigInt || rank.signal == kSigHup) return RankPosition::kTold;
  if (const std::optional<bool> others = blames_others(rank))
    return *others ? RankPosition::kVictim : RankPosition::kGone;
  // An uncaught error ends a process by SIGABRT or an exit code: earlier failures explain it.
  return is_by_itself && has_failed_by_others(rank) ? RankPosition::kVictim : RankPosition::kGone;
}

const DeviceMemory* refusing_memory(const Rank& rank) {
  const DeviceMemory* found = nullptr;
  for (const DeviceMemory& memory : rank.memory) {
    if (memory.refused_nbytes == 0 || went_on_since(rank, memory.refused_ns)) continue;
    if (found == nullptr || memory.refused_nbytes > found->refused_nbytes) found = &memory;
  }
  return found;
}

bool names_its_error(const Rank& rank) { return !rank.reason.empty() && !is_of_launcher(rank.reason); }

bool ran_out_of_memory(const Rank& rank) {
  if (rank.state != RankState::kFailed && rank.state != RankState::kDied) return false;
  const std::string_view kind = kind_named(rank.reason);
  if (!kind.empty()) return kind == "out of memory";
  if (names_its_error(rank)) {
    return rank.reason.find("out of memory") != std::string::npos || rank.reason.find("bad_alloc") != std::string::npos;
  }
  return refusing_memory(rank) != nullptr && (rank.signal == 0 || rank.signal == kSigAbrt);
}

}  // namespace tessera::analysis::detail
