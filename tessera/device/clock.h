// Order by clocks. Every stream of a device counts ticks; recording an event and stamping a use each take a new tick. A
// VectorClock says, for each stream, up to which tick its work is ordered before mine. Recording copies the stream's
// clock into the event, waiting merges the event's clock into the waiting stream's: two loops over small arrays and no
// driver call.
//
//   stream 1   launch  stamp(5)  record(6) ----.
//   stream 2                                    `--> wait   covers(1, 5): yes   covers(1, 7): no
//
// Order is not completion: covers() authorises reuse by a stream, only a completed tick authorises unmapping.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"

namespace tessera::device {

/// Per stream of one device, the latest tick known to be ordered before the holder. Not thread-safe: a stream's clock
/// is guarded by the stream's lock, an event's by the event's.
class TESSERA_API VectorClock {
 public:
  /// The tick up to which `stream` is covered; 0: nothing of it.
  [[nodiscard]] Tick at(StreamId stream) const {
    return Tick(stream.value() < ticks_.size() ? ticks_[stream.value()] : 0);
  }
  /// Whether the work of `stream` up to `tick` is ordered before the holder.
  [[nodiscard]] bool covers(StreamId stream, Tick tick) const { return at(stream) >= tick; }
  /// Raises one entry; a lower tick changes nothing.
  void raise(StreamId stream, Tick tick) {
    if (stream.value() >= ticks_.size()) ticks_.resize(stream.value() + 1, 0);
    ticks_[stream.value()] = std::max(ticks_[stream.value()], tick.value());
  }
  /// Raises every entry to the other's: the holder is now ordered after all that the other is ordered after.
  void merge(const VectorClock& other);
  /// Covers nothing again, keeping the storage.
  void clear() { ticks_.clear(); }
  /// Entries held; entries past the end are 0.
  [[nodiscard]] std::size_t size() const { return ticks_.size(); }
  /// Same order known (missing entries count as 0).
  friend TESSERA_API bool operator==(const VectorClock& a, const VectorClock& b);

 private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace tessera::device
