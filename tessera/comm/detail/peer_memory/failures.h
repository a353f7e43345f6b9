// How a group of peers ends: the first rank that sees a failure writes the verdict for all, and every rank that waits
// then or later throws the same words.
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
/// Names ranks as the job does: "ranks 1 and 3", or "ranks 4 and 6 (group ranks 1 and 3)" if the numbers differ.
/// `world` holds the world rank of each rank of the group.
std::string text_of_members(std::span<const int> places, std::span<const Rank> world);
std::string text_of_members(const PeerMemory& memory, int place);
/// Returns the world rank of each rank of the group.
std::vector<Rank> world_of(const PeerMemory& memory);

/// What a rank tells its peers of an operation: all but where its buffers are.
Notice notice_of(const Operation& operation, std::uint64_t sequence, std::uint64_t group = 0);
/// Returns text that describes why the notices of the ranks, by group rank, differ: those that do something else than
/// most are named. `world` holds the world rank of each; `groups` holds the names of the groups that they do it for.
Failure difference_of(std::span<const Notice> notices, std::span<const Rank> world,
                      std::span<const std::string> groups = {});
/// Ranks that did not come in time.
struct Late {
  std::span<const int> ranks;             ///< group ranks
  std::span<const Rank> world;            ///< world rank of each rank of the group
  std::chrono::nanoseconds deadline;      ///< that passed
  std::chrono::nanoseconds extra = {};    ///< by which the deadline was extended
  std::vector<std::uint64_t> tasks = {};  ///< the number of the operation that each is at, 0 for none; empty: not known
  const char* is_at = " is at operation ";  ///< verb before that number
};
/// "rank 1 did not come within 5 s (rank 1 is at operation 3)".
std::string text_of_late(const Late& late);
/// "5 s", "7 s (a deadline of 5 s, extended by 2 s)".
std::string text_of_deadline(std::chrono::nanoseconds deadline, std::chrono::nanoseconds extra);
/// The words on a peer that made a request of symmetric memory without the meeting that `rank` waits in; both as
/// text_of_members() names them.
std::string text_of_passed(std::string_view rank, std::string_view peer);
/// The failure with the operation it was seen in set before its words.
Failure seen_in(const Operation& operation, std::uint64_t sequence, int by, Failure failure);

/// Whether `peer` has left or died.
bool is_gone(const PeerMemory& memory, int peer);
/// "rank 2 died", "rank 2 has left the group", of one that is gone, named as text_of_members() does.
std::string text_of_gone(const PeerMemory& memory, int peer);

/// While it lives its rank may touch memory of its peers. Throws the verdict if there is one. Any number at a time.
class Reaching {
 public:
  /// Of `rank`, for the group of this name.
  Reaching(const PeerMemory& memory, int rank, std::string_view name);
  ~Reaching();
  Reaching(const Reaching&) = delete;
  Reaching& operator=(const Reaching&) = delete;

 private:
  void end() const;
  const PeerMemory& memory_;
  const int rank_;
};
/// Waits, for a bounded time, until no rank reaches for memory of others. New ones do not begin once there is a
/// verdict.
void wait_until_none_reaches(const PeerMemory& memory);

}  // namespace tessera::comm::detail
