#include "tessera/shard/exposed.h"

#include <utility>

#include "tessera/device/device.h"

namespace tessera::shard {

ExposedTime::Scope::Scope(ExposedTime& time, const device::Stream& stream)
    : stream_(stream), use_(stream.is_capturing() ? device::EventUse::kExternal : device::EventUse::kEdge) {
  const bool is_captured = use_ == device::EventUse::kExternal;
  std::vector<Pair>& pairs = is_captured ? time.captured_ : time.pairs_;
  const std::size_t place = is_captured ? pairs.size() : time.used_++;
  if (place == pairs.size()) {
    const device::Device device = stream.device();
    pairs.push_back({device.create_event({.timing = true}), device.create_event({.timing = true})});
  }
  end_ = pairs[place].end;
  stream_.record(pairs[place].begin, use_);
}

ExposedTime::Scope::~Scope() { stream_.record(end_, use_); }

double ExposedTime::sum_of(const std::vector<Pair>& pairs, std::size_t count) {
  std::chrono::nanoseconds sum{0};
  for (std::size_t i = 0; i < count; ++i) sum += device::Event::elapsed(pairs[i].begin, pairs[i].end);
  return std::chrono::duration<double>(sum).count();
}

double ExposedTime::take_seconds() { return sum_of(pairs_, std::exchange(used_, 0)); }

}  // namespace tessera::shard
