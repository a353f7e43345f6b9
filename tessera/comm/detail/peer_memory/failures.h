// How a group of peers ends: the first rank that sees a failure writes the verdict for all, and every rank that waits
// then or later throws the same words.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/peer_memory/group_memory.h"
#include "tessera/comm/detail/peer_memory/waiting.h"

namespace tessera::comm::detail {

/// Writes the verdict, unless there is one, and wakes all ranks.
void write_verdict(const GroupMemory& group, const Waiting& waiting, const Failure& failure);
/// Whether there is a verdict.
bool has_verdict(const GroupMemory& group);
/// Throws what the verdict says: TimeoutError, AbortedError or MismatchError.
[[noreturn]] void throw_verdict(const GroupMemory& group, std::string_view name);
/// Throws the error of this kind.
[[noreturn]] void throw_failure(Failure::Kind kind, std::string_view what, std::string_view name);
/// "ranks 1 and 3", "rank 2".
std::string text_of_ranks(std::span<const int> ranks);

/// What a rank says it does.
struct Said {
  Operation operation = {};         ///< as far as it is shown
  std::uint64_t counts_digest = 0;  ///< of its uneven parts and targets
  std::uint64_t task = 0;           ///< number of its task
};
/// Of uneven parts and targets.
std::uint64_t digest_of_counts(const Operation& operation);
/// "ranks differ: ranks 0 and 2 run all_reduce(...), rank 1 barrier", by rank; those that do something else than most
/// are added to `others`.
std::string text_of_differences(std::span<const Said> said, std::uint64_t task, std::vector<int>& others);
/// "rank 1 did not come within 5 s (rank 1 is at operation 3)"; `tasks` by rank.
std::string text_of_missing(std::span<const int> missing, std::span<const std::uint64_t> tasks,
                            std::chrono::nanoseconds deadline);
/// "rank 0 sends 3 elements, rank 1 takes 2"; `taken` -1: as many as are sent, to element `first` of `room`.
std::string text_of_offer(int from, int to, std::int64_t sent, std::int64_t taken, std::int64_t first,
                          std::int64_t room);

}  // namespace tessera::comm::detail
