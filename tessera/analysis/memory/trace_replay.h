// Replays a log with a policy, on a real Allocator over an upstream without memory, at any capacity, on any machine.
// The result is the cost of the policy for the run that wrote the log: the peak of reserved memory, and its unused
// part.
//
//   const Trace trace = read_trace("run.csv");
//   const ReplayResult result = replay(trace, Policy::parse("cross_stream=grow"), std::size_t{80} << 30);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/analysis/memory/trace.h"
#include "tessera/base/export.h"
#include "tessera/memory/policy.h"

namespace tessera::analysis {

/// Result of a replay.
struct TESSERA_API ReplayResult {
  std::uint64_t ops = 0;                   ///< Operations replayed.
  std::uint64_t failures = 0;              ///< Allocations that did not fit; their frees are omitted.
  std::uint64_t peak_live_nbytes = 0;      ///< Maximum of requested bytes in use.
  std::uint64_t peak_reserved_nbytes = 0;  ///< Maximum of mapped bytes.
  /// Reserved bytes outside live blocks when the live bytes of the log are at their peak.
  std::uint64_t free_nbytes_at_peak = 0;
  std::uint64_t largest_free_nbytes_at_peak = 0;  ///< Largest contiguous range of free_nbytes_at_peak.
  std::uint64_t maps = 0;                         ///< Chunks mapped (fixed segments: allocated).
  std::uint64_t unmaps = 0;                       ///< Chunks unmapped.
  std::uint64_t moves = 0;                        ///< Chunks moved.
  double ns_per_op = 0;                           ///< Mean time per operation, without reading the log.
  /// Returns peak reserved over peak live bytes. 1 is optimal; 0 if nothing was live.
  [[nodiscard]] double ratio() const;
  /// Returns the fraction of the free bytes at the peak outside the largest range. 0 is optimal.
  [[nodiscard]] double fragmentation() const;
  /// Returns a JSON object with these field names.
  [[nodiscard]] std::string to_json() const;
};

/// Runs the log through an allocator with this policy and capacity. Creates one stream per stream of the log, and each
/// block is used only by the stream of its allocation. A log does not contain the end of work: in a replay, work ends
/// before the next operation, as if the host were never ahead, so the result does not depend on the machine. Memory is
/// mapped in multiples of 2 MiB, as on CUDA, or of the granule of the policy if that is less. Throws InvalidArgument if
/// the log has more than 1,024 streams or inconsistent operations.
TESSERA_API ReplayResult replay(const Trace& trace, const memory::Policy& policy, std::size_t capacity_nbytes);

}  // namespace tessera::analysis
