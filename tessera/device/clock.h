// Vector clocks order work without driver calls. Each stream of a device counts ticks; recording an event or stamping a
// use takes a new tick. A VectorClock holds, for each stream, the tick up to which its work is ordered before the
// holder. Recording copies the clock of the stream into the event. Waiting merges the clock of the event into that of
// the waiting stream. Both are loops over small arrays.
//
//   stream 1   launch  stamp(5)  record(6) ----.
//   stream 2                                    `--> wait   covers(1, 5): yes   covers(1, 7): no
//
// Order is not completion: covers() permits reuse by a stream, but only a completed tick permits unmapping.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"

namespace tessera::device {

/// For each stream of one device, the latest tick known to be ordered before the holder. Not thread-safe: the lock of
/// the stream or event protects its clock.
class TESSERA_API VectorClock {
 public:
  /// Returns the tick up to which `stream` is covered; 0 if nothing is.
  [[nodiscard]] Tick at(StreamId stream) const {
    return Tick(stream.value() < ticks_.size() ? ticks_[stream.value()] : 0);
  }
  /// Returns true if the work of `stream` up to `tick` is ordered before the holder.
  [[nodiscard]] bool covers(StreamId stream, Tick tick) const { return at(stream) >= tick; }
  /// Raises one entry; a lower tick has no effect.
  void raise(StreamId stream, Tick tick) {
    if (stream.value() >= ticks_.size()) ticks_.resize(stream.value() + 1, 0);
    ticks_[stream.value()] = std::max(ticks_[stream.value()], tick.value());
  }
  /// Raises each entry to that of `other`: the holder is then ordered after everything that `other` is ordered after.
  void merge(const VectorClock& other);
  /// Sets all entries to 0 and keeps the storage.
  void clear() { ticks_.clear(); }
  /// Returns the number of stored entries; entries past the end are 0.
  [[nodiscard]] std::size_t size() const { return ticks_.size(); }
  /// Returns true if all entries are equal; missing entries count as 0.
  friend TESSERA_API bool operator==(const VectorClock& a, const VectorClock& b);

 private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace tessera::device
