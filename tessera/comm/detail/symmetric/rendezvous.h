// The rendezvous of ranks over symmetric memory, an operation of the group. Each rank sends its current step, its
// requests so far and the location of its new memory, and receives those of all ranks. All ranks then have the same
// records, and decide on success or failure without further communication.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/detail/symmetric/request_log.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::detail {

/// The contribution of one rank; trivially copyable.
struct RankContribution {
  /// Reasons why a rank has no usable memory.
  enum class Problem : std::uint64_t { kNone, kNoMemory, kUnreachable };
  std::uint64_t pool = 0;            ///< number of the pool; 0: a registration
  Problem problem = Problem::kNone;  ///< problem of this rank
  PeerPlace memory = {};             ///< location of its memory
  PeerPlace pad = {};                ///< location of the signal pad of a new pool
  RequestLog log = {};               ///< its requests
};

/// Runs a rendezvous on the stream and waits for it. `registration` is its number, or 0.
std::vector<RankContribution> meet(const ProcessGroup& group, const device::Stream& stream,
                                   const RankContribution& mine, std::uint64_t registration);
/// Describes which ranks differ and in what; empty if all are at the same step with the same requests.
std::string difference(std::span<const RankContribution> records);
/// Returns the ranks with this problem.
std::vector<int> ranks_with(std::span<const RankContribution> records, RankContribution::Problem problem);

}  // namespace tessera::comm::detail
