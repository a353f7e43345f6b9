// Checked mode. Each launch declares the bytes it reads and writes. A launch is rejected before it runs if it conflicts
// with work that is not ordered before it, accesses memory that is not allocated, or declares nothing. The error names
// both launches and the missing edge. The check uses clocks, not timing, so it finds races that did not happen. Work
// that the host has seen to be complete, and all work before it, is ordered before all streams.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device/clock.h"
#include "tessera/device/graph.h"
#include "tessera/device/launch.h"

namespace tessera::device {
struct DeviceState;
struct StreamState;
}  // namespace tessera::device

namespace tessera::device::detail {

/// The last uses of each byte of a checked device. Thread-safe.
class AccessChecker {
 public:
  /// Checks a launch on `stream`, whose lock is held, and notes it under its tick. If the launch must not run, throws
  /// and notes nothing.
  void launch(StreamState& stream, std::string_view label, std::span<const Access> accesses);
  /// Checks that these bytes are allocated; ignores conflicts (used for synchronization words).
  void touch(std::string_view label, std::span<const Access> accesses) const;
  /// Checks the nodes of a graph against each other.
  static void check_graph(const std::vector<NodeInfo>& nodes);

  /// Makes accesses to these bytes an error that names `by`. Keeps their last uses.
  void forbid(const void* address, std::size_t nbytes, std::string_view by);
  /// Permits accesses to these bytes.
  void allow(const void* address, std::size_t nbytes);
  /// Forgets the uses of these bytes, because other memory is mapped there.
  void forget(const void* address, std::size_t nbytes);

 private:
  struct TensorUse {
    StreamId stream;
    Tick tick;
    std::shared_ptr<const std::string> who;  // "launch 'b' on stream 2"
  };
  struct AccessSpan {
    std::uintptr_t end;
    std::vector<TensorUse> writers;  // at most one
    std::vector<TensorUse> readers;  // since that write, the latest per stream
  };
  struct CheckedLaunch {
    Tick tick;
    VectorClock clock;  // all work before it, and itself
  };
  struct Forbidden {
    std::uintptr_t end;
    std::string by;
  };
  using Spans = std::map<std::uintptr_t, AccessSpan>;

  void note_completed(DeviceState& device);
  void check_given_out(std::string_view who, const Access& access) const;
  void check_order(StreamState& stream, std::string_view who, const Access& access) const;
  void note(const TensorUse& use, const Access& access);
  Spans::iterator split(std::uintptr_t at);

  mutable std::mutex mutex_;
  Spans spans_;
  std::map<StreamId, std::deque<CheckedLaunch>> running_;  // not known to be complete; by stream, the oldest first
  VectorClock over_;                                       // known to be complete, and all work before
  std::map<std::uintptr_t, Forbidden> forbidden_;
};

}  // namespace tessera::device::detail
