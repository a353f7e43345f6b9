// A stream's place among the streams of its device: what hot paths read of a stream without its lock.
//
// A slot outlives its stream and is taken over by a later one, whose ticks go on counting where the earlier stopped.
//
//   free of a block:   use = slot.upcoming();     no lock, no tick taken, no driver call
//
// upcoming() stands for all work launched so far, seen by us or not: whatever is recorded on the stream from now on
// takes at least that tick.
#pragma once

#include <atomic>
#include <cstdint>

#include "tessera/base/ids.h"

namespace tessera::device {

struct DeviceState;

/// What is known of a stream without asking it. Thread-safe; written by the device layer alone.
class StreamSlot {
 public:
  /// What makes a stream one to be asked before memory is taken from or given to it.
  enum Hazard : std::uint32_t {
    kCapturing = 1,    ///< takes part in a capture begun through us
    kOverlapping = 2,  ///< inside a Stream::OverlapScope
    kForeign = 4,      ///< wrapped: it may capture without our knowing
    kVacant = 8,       ///< the stream is gone; its work may still run until completed() reaches tick()
  };

  /// Place among the streams of the device.
  [[nodiscard]] StreamId id() const { return id_; }
  /// The device.
  [[nodiscard]] const DeviceState* device() const { return device_; }
  /// Latest tick taken.
  [[nodiscard]] Tick tick() const { return Tick(tick_.load(std::memory_order_seq_cst)); }
  /// The tick that covers all work launched so far; the last one of a stream that is gone.
  [[nodiscard]] Tick upcoming() const {
    const Tick next(tick().value() + 1);
    return (hazards() & kVacant) == 0 ? next : tick();
  }
  /// Latest tick known to have completed.
  [[nodiscard]] Tick completed() const { return Tick(completed_.load(std::memory_order_acquire)); }
  /// The capture begun through us that the stream takes part in; 0: none. A wrapped stream may be in another.
  [[nodiscard]] CaptureId capture() const { return CaptureId(capture_.load(std::memory_order_acquire)); }
  /// Hazards, or-ed; 0: a plain stream.
  [[nodiscard]] std::uint32_t hazards() const { return hazards_.load(std::memory_order_acquire); }

 protected:
  StreamId id_;                              ///< see id()
  const DeviceState* device_ = nullptr;      ///< see device()
  std::atomic<std::uint64_t> tick_{0};       ///< see tick()
  std::atomic<std::uint32_t> hazards_{0};    ///< see hazards()
  std::atomic<std::uint64_t> completed_{0};  ///< see completed()
  std::atomic<std::uint64_t> capture_{0};    ///< see capture()
};

}  // namespace tessera::device
