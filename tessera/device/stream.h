// Streams: queues of work on a device. Work runs in order within a stream; events order work of different streams.
//
// All calls are asynchronous unless they state that they wait. An operation that fails when it runs parks its error on
// the stream, and later work may be skipped. Each wait on that stream, or on an event after the failure, throws the
// error until reset_error() is called. A stream that waits on an event after a failure inherits it.
//
// Between begin_capture and end_capture, operations become nodes of a graph and do not run. A stream that waits on an
// event recorded in a capture joins that capture (a fork). It must be joined back by an event before the end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/device/clock.h"
#include "tessera/device/event.h"
#include "tessera/device/graph.h"
#include "tessera/device/host_function.h"
#include "tessera/device/launch.h"
#include "tessera/device/stream_slot.h"

namespace tessera::device {

class Device;
struct StreamState;
class HoldBackend;

/// Options of a stream.
struct StreamOptions {
  std::string name = {};  ///< shown in errors and records; default: "stream N"
  int priority = 0;       ///< lower values run first, if the device supports priorities; clamped to the supported range
  bool may_spin = false;  ///< its work may wait for other streams or ranks; the allocator enqueues no waits on it
};

/// Comparison of wait_value between the word in memory and the value.
enum class Compare : std::uint8_t {
  kEqual,         ///< word == value
  kGreaterEqual,  ///< word >= value, as a cyclic difference
  kAnd,           ///< (word & value) != 0
};

/// The effect of a record or wait inside a capture.
enum class EventUse : std::uint8_t {
  kEdge,      ///< an edge that orders streams inside the capture; the event itself is not changed
  kExternal,  ///< a node: each replay records the event, or waits for it, with effect outside the graph
};

/// A stream stopped by Stream::hold. Copies share the hold.
class TESSERA_API Hold {
 public:
  /// Constructs an empty handle.
  Hold() = default;
  /// Constructs a handle. Called by Stream::hold.
  explicit Hold(std::shared_ptr<HoldBackend> backend) : backend_(std::move(backend)) {}
  /// Resumes the stream. Further calls have no effect.
  void release() const;
  /// Returns true if the timeout passed before release().
  [[nodiscard]] bool timed_out() const;

 private:
  std::shared_ptr<HoldBackend> backend_;
};

/// Handle to a queue of work on one device. Copies share the stream; after the last handle is destroyed, the stream is
/// destroyed once its work has completed. Thread-safe: each operation and its clock update are atomic.
class TESSERA_API Stream {
 public:
  /// Constructs an empty handle.
  Stream() = default;
  /// Constructs a handle. Called by Device::create_stream.
  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  /// Wraps a native stream (a CUstream, or native() of another Stream). Wrapping a stream twice returns the same
  /// stream. The native stream is not destroyed with the handle. The next stamp or record covers work launched on it
  /// directly.
  static Stream wrap(const Device& device, void* native, StreamOptions options = {});
  /// Returns true if the handle refers to a stream.
  explicit operator bool() const { return state_ != nullptr; }

  /// Launches a kernel of this device.
  void launch(const Kernel& kernel, const LaunchConfig& config, const KernelArgs& args,
              const LaunchInfo& info = {}) const;
  /// Calls `body` with native() immediately, so that another library can launch work, and counts it as one launch. The
  /// context of the device is current during the call; `body` must launch on that stream and must not use a Stream. Set
  /// `loads_code` if `body` may load code into the device; the call then waits until nothing spins there. The launched
  /// work must keep the order of the stream: it has completed when a later operation starts, even if the library
  /// overlaps its own kernels. Captures treat it so too. Throws NotSupported on the host.
  void launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info = {},
                     bool loads_code = false) const;
  /// Runs a host function after the earlier work has completed. The function must not wait for work of this device.
  void run(HostFunction body, const LaunchInfo& info = {}) const;
  /// Runs `body` as run() does and returns true, if the calling thread can run it now. Otherwise returns false, and the
  /// caller may enqueue `body`. `body` need not own the data it uses. The caller must keep the stream alive during the
  /// call.
  [[nodiscard]] bool try_run(HostFunction& body, const LaunchInfo& info = {}) const;
  /// Copies bytes between host and device memory; the addresses determine the direction.
  void copy(void* to, const void* from, std::size_t nbytes, std::string_view label = "copy") const;
  /// Copies `height` rows of `width` bytes, rows `to_pitch` and `from_pitch` bytes apart.
  void copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
               std::size_t height, std::string_view label = "copy_2d") const;
  /// Writes `count` items of `item_nbytes` (1, 2 or 4) bytes, each the low bytes of `pattern`.
  void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
            std::string_view label = "fill") const;
  /// Writes a 64-bit value to device or pinned memory after all earlier work is visible.
  void write_value(std::uint64_t* to, std::uint64_t value) const;
  /// Stops this stream until the word compares true with `value`. Sets may_spin().
  void wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare = Compare::kGreaterEqual) const;
  /// Stops this stream until Hold::release. Parks a TimeoutError after `timeout`. Sets may_spin().
  [[nodiscard]] Hold hold(std::chrono::nanoseconds timeout) const;

  /// Records `event` at this point. Takes a new tick.
  void record(const Event& event, EventUse use = EventUse::kEdge) const;
  /// Makes later work wait for the latest recorded point of the event. Has no effect if the event was never recorded.
  void wait(const Event& event, EventUse use = EventUse::kEdge) const;
  /// Declares that a call outside Tessera made this stream wait for `event`. Only merges the clocks.
  void note_wait(const Event& event) const;

  /// Takes a new tick that covers all work launched so far, including work launched outside Tessera.
  [[nodiscard]] Tick stamp() const;
  /// Returns true if the work of `stream` (of this device) up to `tick` is ordered before later work of this stream.
  [[nodiscard]] bool covers(StreamId stream, Tick tick) const;
  /// Returns a copy of this stream's clock.
  [[nodiscard]] VectorClock clock() const;
  /// Returns the latest tick known to have completed, without a driver call.
  [[nodiscard]] Tick completed() const;
  /// Queries the driver whether the stream is idle. Returns the latest tick known to have completed. Never waits.
  Tick poll() const;
  /// Takes a tick that the device publishes, so that completed() advances without further calls. Returns the tick.
  Tick publish() const;

  /// While a scope is open, launches on the stream may overlap the previous launch (programmatic launches). covers()
  /// accounts for this: it covers neither these launches nor the last launch before the scope.
  class TESSERA_API OverlapScope {
   public:
    /// Opens the scope on `stream`; scopes nest.
    explicit OverlapScope(const Stream& stream);
    /// Closes the scope. The next operation is ordered after all earlier ones.
    ~OverlapScope();
    OverlapScope(const OverlapScope&) = delete;
    OverlapScope& operator=(const OverlapScope&) = delete;

   private:
    std::shared_ptr<StreamState> state_;
  };

  /// Begins to capture the operations of this stream and of streams that join it.
  void begin_capture() const;
  /// Ends the capture that began on this stream. If a stream that joined it was not joined back, throws an error that
  /// names the stream, and changes nothing.
  [[nodiscard]] Graph end_capture() const;
  /// Discards the capture that began on this stream and restores all its streams. Has no effect without a capture.
  void abort_capture() const;
  /// Returns the capture state of this stream; id 0 if it is not capturing. Queries the driver, not a cache.
  [[nodiscard]] CaptureInfo capture_info() const;
  /// Returns a counter that changes whenever capture_info() changes, valid as long as this handle. Callers can use it
  /// to avoid repeated queries. Returns null on devices whose driver other libraries can use too.
  [[nodiscard]] const std::atomic<std::uint64_t>* capture_changes() const;
  /// Returns the incoming edges of a node of this stream's capture.
  [[nodiscard]] Dependencies capture_predecessors(NodeId node) const;
  /// Replaces the dependencies of the next captured operation of this stream; see CaptureInfo::dropped.
  void set_capture_dependencies(const std::vector<NodeId>& nodes) const;
  /// Returns true if this stream is capturing.
  [[nodiscard]] bool is_capturing() const;

  /// Returns true if all work has completed. Throws a parked error.
  [[nodiscard]] bool query() const;
  /// Waits for all work. Throws a parked error, or TimeoutError.
  void synchronize(std::chrono::nanoseconds timeout = kForever) const;
  /// Clears the parked error so that the stream can be used again. Throws if the device is lost.
  void reset_error() const;

  /// Returns the state that can be read without a lock. It outlives the stream.
  [[nodiscard]] const StreamSlot& slot() const;
  /// Returns its slot among the streams of its device.
  [[nodiscard]] StreamId id() const;
  /// Returns its name.
  [[nodiscard]] const std::string& name() const;
  /// Returns its device.
  [[nodiscard]] Device device() const;
  /// Returns true if work on it may wait for other streams, ranks or the host.
  [[nodiscard]] bool may_spin() const;
  /// Returns the driver's object: a CUstream, or on the host an opaque pointer for wrap().
  [[nodiscard]] void* native() const;
  /// Releases this handle.
  void reset() { state_.reset(); }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<StreamState>& state() const { return state_; }

 private:
  std::shared_ptr<StreamState> state_;
};

}  // namespace tessera::device
