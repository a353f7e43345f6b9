// Replays a log against a policy: a real Allocator over an upstream that reserves no memory, at any capacity, on any
// machine. What comes out is what the policy would have cost the run that wrote the log: how much would have been
// reserved at most, and how much of that was of no use.
//
//   const Trace trace = read_trace("run.csv");
//   const ReplayResult result = replay(trace, Policy::parse("cross_stream=grow"), std::size_t{80} << 30);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/memory/policy.h"
#include "tessera/memory/trace.h"

namespace tessera::memory {

/// What came out of a replay.
struct TESSERA_API ReplayResult {
  std::uint64_t ops = 0;                   ///< operations replayed
  std::uint64_t failures = 0;              ///< allocations that found no room; their frees are left out
  std::uint64_t peak_live_nbytes = 0;      ///< most bytes asked for and held at once
  std::uint64_t peak_reserved_nbytes = 0;  ///< most bytes mapped at once
  /// Where the log holds most: bytes reserved beside live blocks, and the largest contiguous range of them.
  std::uint64_t free_nbytes_at_peak = 0;
  std::uint64_t largest_free_nbytes_at_peak = 0;  ///< see above
  std::uint64_t maps = 0;                         ///< pieces mapped (fixed segments: allocated)
  std::uint64_t unmaps = 0;                       ///< pieces unmapped
  std::uint64_t moves = 0;                        ///< pieces moved
  double ns_per_op = 0;                           ///< time an operation took, the log already read
  /// Peak reserved over peak live: 1 is as good as can be; 0 when nothing was live.
  [[nodiscard]] double ratio() const;
  /// The share of the free bytes at the peak that is not in the largest range: 0 is as good as can be.
  [[nodiscard]] double fragmentation() const;
  /// An object with these names.
  [[nodiscard]] std::string to_json() const;
};

/// Runs the log through an allocator of this policy with so much memory. As many streams are made as the log names, and
/// each block is used by the stream of its allocation alone. A log does not tell when work ended: here it has ended by
/// the next operation, as in a run whose host is never ahead. So a replay has one result, whatever the machine is
/// doing. The memory is mapped in multiples of 2 MiB, as on CUDA, or of the policy's granule where that is less.
/// InvalidArgument for a log of more than 1,024 streams, or one whose ops make no sense.
TESSERA_API ReplayResult replay(const Trace& trace, const Policy& policy, std::size_t capacity_nbytes);

}  // namespace tessera::memory
