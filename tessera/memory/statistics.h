// Numbers an allocator keeps about itself. The byte sums are those of snapshot.h, taken under each heap's lock in turn;
// Allocator::snapshot() holds all locks at once.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// What an allocator has done and holds.
struct TESSERA_API Statistics {
  Totals now = {};                         ///< what it holds
  std::uint64_t peak_reserved_nbytes = 0;  ///< most that was mapped since the last reset_peaks()
  /// Most bytes that were live: exact with one stream; with several at most 1/64 and 32 KiB per stream and pool too
  /// high.
  std::uint64_t peak_live_nbytes = 0;

  std::uint64_t allocations = 0;      ///< blocks handed out
  std::uint64_t frees = 0;            ///< blocks given back
  std::uint64_t covered_reuses = 0;   ///< blocks lent to another stream because its clock covered their uses
  std::uint64_t device_waits = 0;     ///< waits put on the device to reuse a block: each makes streams wait in turn
  std::uint64_t events_recorded = 0;  ///< events recorded at frees of blocks that several streams used
  std::uint64_t capture_reuses = 0;   ///< blocks reused inside a capture after a proof
  std::uint64_t maps = 0;             ///< pieces mapped
  std::uint64_t unmaps = 0;           ///< pieces unmapped
  std::uint64_t moves = 0;            ///< pieces moved from one heap to another instead of mapping more

  std::uint64_t retries_pending = 0;      ///< ladder: requests that pending blocks saved
  std::uint64_t retries_trim = 0;         ///< ladder: ... that giving back cached memory saved
  std::uint64_t retries_synchronize = 0;  ///< ladder: ... that waiting for streams saved
  std::uint64_t retries_borrow = 0;       ///< ladder: ... that another pool's memory saved
  std::uint64_t retries_callback = 0;     ///< ladder: ... that a callback saved
  std::uint64_t collections = 0;          ///< times cached memory was collected by age
  std::uint64_t out_of_memory = 0;        ///< requests that failed

  /// One line each, for people.
  [[nodiscard]] std::string to_text() const;
  /// An object with these names.
  [[nodiscard]] std::string to_json() const;
};

}  // namespace tessera::memory
