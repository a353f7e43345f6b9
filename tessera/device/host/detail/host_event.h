// Events of the host device: a point on the timeline of a stream or, inside a capture, a set of nodes.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/host/detail/host_shared.h"
#include "tessera/device/host/detail/op_queue.h"
#include "tessera/device/host/detail/timeline.h"

namespace tessera::device::host::detail {

class HostCapture;

/// The position of an event in a capture.
struct CapturedPoint {
  std::shared_ptr<HostCapture> capture = nullptr;  ///< null: not recorded in an active capture
  Dependencies dependencies = {};                  ///< nodes before it
};

/// An event of the host device. Thread-safe.
class HostEvent : public EventBackend, public std::enable_shared_from_this<HostEvent> {
 public:
  HostEvent(std::shared_ptr<HostShared> shared, bool timing) : shared_(std::move(shared)), timing_(timing) {}
  ~HostEvent() override { magic_ = 0; }
  /// Returns the event of a native pointer. Throws if the pointer is invalid.
  static HostEvent& from_native(void* native);

  bool query() override;
  bool synchronize(std::chrono::nanoseconds timeout) override;
  std::chrono::nanoseconds since(EventBackend& start) override;
  void* native() override { return this; }

  /// Creates a time stamp for a record; null for an event without timing.
  [[nodiscard]] std::shared_ptr<TimeStamp> make_stamp() const;
  /// Moves the event to a recorded point.
  void set_point(Point point, std::shared_ptr<TimeStamp> stamp);
  /// Returns the latest recorded point.
  [[nodiscard]] Point point() const;
  /// Moves the event to a position in a capture; its recorded point stays.
  void set_captured(CapturedPoint place);
  /// Returns the position in an active capture.
  [[nodiscard]] CapturedPoint captured() const;

 private:
  static constexpr std::uint64_t kMagic = 0x7E55E7A5E7E27ull;
  std::uint64_t magic_ = kMagic;
  const std::shared_ptr<HostShared> shared_;
  const bool timing_;
  mutable std::mutex mutex_;
  Point point_;
  std::shared_ptr<TimeStamp> stamp_;
  CapturedPoint captured_;
};

}  // namespace tessera::device::host::detail
