// Checked mode. Every launch declares the bytes it reads and writes; a launch that conflicts with work not ordered
// before it, touches memory that is not given out, or declares nothing is refused before it runs, with an error that
// names both launches and the missing edge. The verdict comes from the clocks, not from timing: a race is found even
// when it did not happen. Only what the host has seen to be complete is over for all streams, and with it all that came
// before.
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

/// What every byte of a checked device was last used by. Thread-safe.
class AccessChecker {
 public:
  /// Checks a launch on `stream`, whose lock is held, and notes it under the tick it took. Throws and notes nothing
  /// when the launch must not run.
  void launch(StreamState& stream, std::string_view label, std::span<const Access> accesses);
  /// Checks that these bytes are given out; conflicts do not matter (words that synchronise).
  void touch(std::string_view label, std::span<const Access> accesses) const;
  /// Checks the nodes of a graph against each other.
  static void check_graph(const std::vector<NodeInfo>& nodes);

  /// From now on touching these bytes is an error that names `by`. What used them last is remembered.
  void forbid(const void* address, std::size_t nbytes, std::string_view by);
  /// From now on these bytes may be touched.
  void allow(const void* address, std::size_t nbytes);
  /// Forgets what used these bytes: the memory behind them is another one now.
  void forget(const void* address, std::size_t nbytes);

 private:
  struct Use {
    StreamId stream;
    Tick tick;
    std::shared_ptr<const std::string> who;  // "launch 'b' on stream 2"
  };
  struct Span {
    std::uintptr_t end;
    std::vector<Use> writers;  // none or one
    std::vector<Use> readers;  // since that write, the latest of each stream
  };
  struct Launch {
    Tick tick;
    VectorClock clock;  // what came before it, itself included
  };
  struct Forbidden {
    std::uintptr_t end;
    std::string by;
  };
  using Spans = std::map<std::uintptr_t, Span>;

  void note_completed(DeviceState& device);
  void check_given_out(std::string_view who, const Access& access) const;
  void check_order(StreamState& stream, std::string_view who, const Access& access) const;
  void note(const Use& use, const Access& access);
  Spans::iterator split(std::uintptr_t at);

  mutable std::mutex mutex_;
  Spans spans_;
  std::map<StreamId, std::deque<Launch>> running_;  // not yet seen to be complete; by stream, the oldest first
  VectorClock over_;                                // what was seen to be complete, and all that came before
  std::map<std::uintptr_t, Forbidden> forbidden_;
};

}  // namespace tessera::device::detail
