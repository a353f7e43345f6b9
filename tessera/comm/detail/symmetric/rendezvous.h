// How ranks meet over symmetric memory: each tells what it is at, what it asked for so far and where its new memory is,
// and gets the same of all, as an operation of the group. All ranks then have the same records and so come to the same
// end, well or not, with no further word.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/detail/symmetric/request_log.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::detail {

/// What one rank tells. Plain bytes.
struct Record {
  /// What keeps it from having the memory.
  enum class Problem : std::uint64_t { kNone, kNoMemory, kUnreachable };
  std::uint64_t pool = 0;            ///< the number of the pool; 0: a registration
  Problem problem = Problem::kNone;  ///< of this rank
  PeerPlace memory = {};             ///< where its memory is
  PeerPlace pad = {};                ///< where the signal pad of a new pool is
  RequestLog log = {};               ///< what it asked for
};

/// Runs one on the stream; waits. `registration`: its number, or 0.
std::vector<Record> meet(const ProcessGroup& group, const device::Stream& stream, const Record& mine,
                         std::uint64_t registration);
/// Empty where the ranks are at the same and asked for the same; else who differs in what.
std::string difference(std::span<const Record> records);
/// The ranks with this problem.
std::vector<int> ranks_with(std::span<const Record> records, Record::Problem problem);

}  // namespace tessera::comm::detail
