#include "tessera/device/clock.h"

namespace tessera::device {

void VectorClock::merge(const VectorClock& other) {
  if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size(), 0);
  const std::uint64_t* from = other.ticks_.data();
  std::uint64_t* to = ticks_.data();
  for (std::size_t i = 0, n = other.ticks_.size(); i < n; ++i) to[i] = std::max(to[i], from[i]);
}

bool operator==(const VectorClock& a, const VectorClock& b) {
  const std::size_t n = std::max(a.size(), b.size());
  for (std::size_t i = 0; i < n; ++i) {
    const StreamId stream(static_cast<std::uint32_t>(i));
    if (a.at(stream) != b.at(stream)) return false;
  }
  return true;
}

}  // namespace tessera::device
