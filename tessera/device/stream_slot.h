// A slot holds the state of a stream that hot paths read without its lock.
//
// A slot outlives its stream. A later stream may reuse it and continues its ticks.
//
//   free of a block:   use = slot.upcoming();     no lock, no tick taken, no driver call
//
// upcoming() covers all work launched so far, inside or outside Tessera: later records on the stream take at least that
// tick.
#pragma once

#include <atomic>
#include <cstdint>

#include "tessera/base/ids.h"

namespace tessera::device {

struct DeviceState;

/// State of a stream that can be read without its lock. Thread-safe; written only by the device layer.
class StreamSlot {
 public:
  /// States in which the stream must be queried before memory is exchanged with it.
  enum Hazard : std::uint32_t {
    kCapturing = 1,    ///< takes part in a capture that Tessera began
    kOverlapping = 2,  ///< inside a Stream::OverlapScope
    kForeign = 4,      ///< wrapped: other libraries may capture on it
    kVacant = 8,       ///< the stream was destroyed; its work may run until completed() reaches tick()
  };

  /// Returns its index among the streams of the device.
  [[nodiscard]] StreamId id() const { return id_; }
  /// Returns the device.
  [[nodiscard]] const DeviceState* device() const { return device_; }
  /// Returns the latest tick taken.
  [[nodiscard]] Tick tick() const { return Tick(tick_.load(std::memory_order_seq_cst)); }
  /// Returns the tick that covers all work launched so far; for a destroyed stream, its last tick.
  [[nodiscard]] Tick upcoming() const {
    const Tick next(tick().value() + 1);
    return (hazards() & kVacant) == 0 ? next : tick();
  }
  /// Returns the latest tick known to have completed.
  [[nodiscard]] Tick completed() const { return Tick(completed_.load(std::memory_order_acquire)); }
  /// Returns the stream's capture that Tessera began, or 0. A wrapped stream may be in another capture.
  [[nodiscard]] CaptureId capture() const { return CaptureId(capture_.load(std::memory_order_acquire)); }
  /// Returns the hazards, or-ed; 0 for a plain stream.
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
