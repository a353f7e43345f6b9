// Statistics of an allocator. The byte sums are those of snapshot.h, taken under one heap lock at a time.
// Allocator::snapshot() holds all locks together.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// Counters and sums of an allocator.
struct TESSERA_API Statistics {
  Totals now = {};                         ///< Current state.
  std::uint64_t peak_reserved_nbytes = 0;  ///< Maximum of mapped bytes since the last reset_peaks().
  /// Maximum of live bytes. Exact with one stream; with several, too high by at most 1/64 plus 32 KiB per stream and
  /// pool.
  std::uint64_t peak_live_nbytes = 0;

  std::uint64_t allocations = 0;      ///< Blocks allocated.
  std::uint64_t frees = 0;            ///< Blocks freed.
  std::uint64_t covered_reuses = 0;   ///< Blocks reused by another stream because its clock covered their uses.
  std::uint64_t device_waits = 0;     ///< Waits enqueued on the device to reuse a block.
  std::uint64_t events_recorded = 0;  ///< Events recorded at frees of blocks that several streams used.
  std::uint64_t capture_reuses = 0;   ///< Blocks reused inside a capture after a proof.
  std::uint64_t maps = 0;             ///< Chunks mapped.
  std::uint64_t unmaps = 0;           ///< Chunks unmapped.
  std::uint64_t moves = 0;            ///< Chunks moved between heaps instead of mapping more.

  std::uint64_t retries_pending = 0;      ///< Retries that succeeded with pending blocks.
  std::uint64_t retries_trim = 0;         ///< Retries that succeeded after releasing cached memory.
  std::uint64_t retries_synchronize = 0;  ///< Retries that succeeded after waiting for streams.
  std::uint64_t retries_borrow = 0;       ///< Retries that succeeded with memory of another pool.
  std::uint64_t retries_callback = 0;     ///< Retries that succeeded after a callback.
  std::uint64_t collections = 0;          ///< Collections of cached memory by age.
  std::uint64_t out_of_memory = 0;        ///< Requests that failed.

  /// Returns human-readable text, one line per field.
  [[nodiscard]] std::string to_text() const;
  /// Returns a JSON object with these field names.
  [[nodiscard]] std::string to_json() const;
};

}  // namespace tessera::memory
