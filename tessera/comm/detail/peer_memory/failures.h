// Failures of a group of peers. The first rank that detects a failure writes the group failure (Verdict) for all ranks.
// Ranks that wait then or later throw it, with the same message.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/peer_memory/group_memory.h"
#include "tessera/comm/detail/peer_memory/peer_memory.h"
#include "tessera/comm/detail/peer_memory/waiting.h"

namespace tessera::comm::detail {

/// Writes the group failure, unless there is one, and wakes all ranks.
void write_verdict(const GroupMemory& group, const Waiting& waiting, const Failure& failure);
/// Returns true if the group has failed.
bool has_verdict(const GroupMemory& group);
/// Throws the group failure: TimeoutError, AbortedError or MismatchError.
[[noreturn]] void throw_verdict(const GroupMemory& group, std::string_view name);
/// Throws an error for this kind of failure.
[[noreturn]] void throw_failure(Failure::Kind kind, std::string_view what, std::string_view name);
/// Formats ranks: "ranks 1 and 3", "rank 2".
std::string text_of_ranks(std::span<const int> ranks);
/// Formats group ranks as world ranks: "ranks 1 and 3", or "ranks 4 and 6 (group ranks 1 and 3)" if the numbers differ.
/// `world` holds the world rank of each rank of the group.
std::string text_of_members(std::span<const int> places, std::span<const Rank> world);
std::string text_of_members(const PeerMemory& memory, int place);
/// Returns the world rank of each rank of the group.
std::vector<Rank> world_of(const PeerMemory& memory);

/// Returns the description of an operation for the peers, without the locations of the buffers.
Notice notice_of(const Operation& operation, std::uint64_t sequence, std::uint64_t group = 0);
/// Describes how the notices of the ranks, by group rank, differ. Names the ranks that differ from most others. `world`
/// holds the world rank of each; `groups` holds the name of the group of each notice.
Failure difference_of(std::span<const Notice> notices, std::span<const Rank> world,
                      std::span<const std::string> groups = {});
/// Ranks that missed a deadline.
struct Late {
  std::span<const int> ranks;               ///< group ranks
  std::span<const Rank> world;              ///< world rank of each rank of the group
  std::chrono::nanoseconds deadline;        ///< the missed deadline
  std::chrono::nanoseconds extra = {};      ///< extension of the deadline
  std::vector<std::uint64_t> tasks = {};    ///< number of each rank's current operation, 0 for none; empty if unknown
  const char* is_at = " is at operation ";  ///< verb before that number
};
/// Formats late ranks: "rank 1 did not arrive within 5 s (rank 1 is at operation 3)".
std::string text_of_late(const Late& late);
/// Describes a peer that made a symmetric memory request without the rendezvous that `rank` waits in. Both names come
/// from text_of_members().
std::string text_of_passed(std::string_view rank, std::string_view peer);
/// Returns the failure with the operation that detected it prepended to its text.
Failure seen_in(const Operation& operation, std::uint64_t sequence, int by, Failure failure);

/// Returns true if `peer` has left or died.
bool is_gone(const PeerMemory& memory, int peer);
/// Describes a lost peer: "rank 2 died", "rank 2 has left the group", with the name of text_of_members().
std::string text_of_gone(const PeerMemory& memory, int peer);

/// While this object lives, its rank may access memory of its peers. The constructor throws the group failure if there
/// is one. Several may exist at a time.
class Reaching {
 public:
  /// Starts the access of `rank`, for the group of this name.
  Reaching(const PeerMemory& memory, int rank, std::string_view name);
  ~Reaching();
  Reaching(const Reaching&) = delete;
  Reaching& operator=(const Reaching&) = delete;

 private:
  void end() const;
  const PeerMemory& memory_;
  const int rank_;
};
/// Waits, for a limited time, until no rank accesses memory of others. No new access starts after a group failure.
void wait_until_none_reaches(const PeerMemory& memory);

}  // namespace tessera::comm::detail
