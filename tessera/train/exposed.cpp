#include "tessera/train/exposed.h"

#include "tessera/device/device.h"

namespace tessera::train {

ExposedTime::Scope::Scope(ExposedTime& time, const device::Stream& stream)
    : time_(time), stream_(stream), pair_(time.used_++) {
  if (pair_ == time.pairs_.size()) {
    const device::Device device = stream.device();
    time.pairs_.push_back({device.create_event({.timing = true}), device.create_event({.timing = true})});
  }
  stream_.record(time.pairs_[pair_].begin);
}

ExposedTime::Scope::~Scope() { stream_.record(time_.pairs_[pair_].end); }

double ExposedTime::take_seconds() {
  std::chrono::nanoseconds sum{0};
  for (std::size_t i = 0; i < used_; ++i) sum += device::Event::elapsed(pairs_[i].begin, pairs_[i].end);
  used_ = 0;
  return std::chrono::duration<double>(sum).count();
}

}  // namespace tessera::train
