// Streams: queues of work on a device, in order within one stream and ordered across streams by events.
//
// Everything here is asynchronous except where it says "waits". An operation that fails when it runs parks its error on
// the stream; work behind it may be skipped; the next wait on that stream, or on an event behind the failure, throws
// it, and so does every wait after that until reset_error(). A stream that waits on an event behind a failure inherits
// it.
//
// Capture: between begin_capture and end_capture operations become nodes of a graph and do not run. A stream that waits
// on an event recorded in a capture joins that capture (a fork); it must be joined back by an event before the end.
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

/// How a stream is made.
struct StreamOptions {
  std::string name = {};  ///< shown in errors and records; default: "stream N"
  int priority = 0;       ///< lower runs first where the device can choose; clamped to what it offers
  bool may_spin = false;  ///< work on it may wait for other streams or ranks; the allocator puts no waits on it
};

/// How a wait_value compares the word in memory with the value.
enum class Compare : std::uint8_t {
  kEqual,         ///< word == value
  kGreaterEqual,  ///< word >= value, as a cyclic difference
  kAnd,           ///< (word & value) != 0
};

/// Whether a record or wait inside a capture is an edge of the graph or a node that touches the event itself.
enum class EventUse : std::uint8_t {
  kEdge,      ///< orders streams inside the capture; the event itself is not touched
  kExternal,  ///< a node: each replay records the event, or waits for it, as seen from outside
};

/// A stream stopped by Stream::hold. A shared handle.
class TESSERA_API Hold {
 public:
  /// No hold.
  Hold() = default;
  /// Made by Stream::hold.
  explicit Hold(std::shared_ptr<HoldBackend> backend) : backend_(std::move(backend)) {}
  /// Lets the stream go on. Calling it again changes nothing.
  void release() const;
  /// Whether the deadline passed before release().
  [[nodiscard]] bool timed_out() const;

 private:
  std::shared_ptr<HoldBackend> backend_;
};

/// A queue of work on one device. A shared handle; when the last is gone the stream goes away once its work is done.
/// Thread-safe: each operation and its clock update are one step.
class TESSERA_API Stream {
 public:
  /// No stream.
  Stream() = default;
  /// Made by Device::create_stream.
  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  /// A stream made elsewhere (a CUstream, or another Stream's native()). Wrapping the same one twice gives one stream;
  /// it is not destroyed with the handle. Work launched on it directly is covered by the next stamp or record.
  static Stream wrap(const Device& device, void* native, StreamOptions options = {});
  /// Whether there is a stream.
  explicit operator bool() const { return state_ != nullptr; }

  /// Launches a kernel of this device.
  void launch(const Kernel& kernel, const LaunchConfig& config, const KernelArgs& args,
              const LaunchInfo& info = {}) const;
  /// Work that another library launches: calls `body` with native(), at once, as one launch. The device's context is
  /// current for this thread meanwhile; `body` launches on that stream and uses no Stream itself. `loads_code`: it may
  /// load code into the device, which must wait until nothing spins there. NotSupported on the host.
  void launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info = {},
                     bool loads_code = false) const;
  /// Runs a host function when the work before it is done. It must not wait for work of this device.
  void run(HostFunction body, const LaunchInfo& info = {}) const;
  /// Runs `body` as run() does and returns true, if the calling thread can run it now. Else returns false, and `body`
  /// may be enqueued otherwise. `body` need not own what it uses. The caller keeps the stream until the call returns.
  [[nodiscard]] bool try_run(HostFunction& body, const LaunchInfo& info = {}) const;
  /// Copies bytes between any two places of host and device; the direction is found from the addresses.
  void copy(void* to, const void* from, std::size_t nbytes, std::string_view label = "copy") const;
  /// Copies `height` rows of `width` bytes, rows `to_pitch` and `from_pitch` bytes apart.
  void copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
               std::size_t height, std::string_view label = "copy_2d") const;
  /// Writes `count` items of `item_nbytes` (1, 2 or 4) bytes, each the low bytes of `pattern`.
  void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
            std::string_view label = "fill") const;
  /// Writes a 64-bit value to device or pinned memory, after all work before it is visible.
  void write_value(std::uint64_t* to, std::uint64_t value) const;
  /// Stops this stream until the word compares true with `value`. Marks the stream as one that may spin.
  void wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare = Compare::kGreaterEqual) const;
  /// Stops this stream until Hold::release, or parks a TimeoutError after `timeout`. Marks it as one that may spin.
  [[nodiscard]] Hold hold(std::chrono::nanoseconds timeout) const;

  /// Records `event` at this point. Takes a new tick.
  void record(const Event& event, EventUse use = EventUse::kEdge) const;
  /// Work after this waits for the event's latest recorded point. An event never recorded is no wait.
  void wait(const Event& event, EventUse use = EventUse::kEdge) const;
  /// Says that this stream was made to wait for `event` by a call we did not see; only merges the clocks.
  void note_wait(const Event& event) const;

  /// Takes a new tick that stands for all work launched so far, seen by us or not.
  [[nodiscard]] Tick stamp() const;
  /// Whether the work of `stream` (of this device) up to `tick` is ordered before what this stream does next.
  [[nodiscard]] bool covers(StreamId stream, Tick tick) const;
  /// This stream's clock; a copy.
  [[nodiscard]] VectorClock clock() const;
  /// The latest tick known to have completed, without asking the driver.
  [[nodiscard]] Tick completed() const;
  /// Asks the driver whether the stream is idle and returns the latest tick known to have completed. Never waits.
  Tick poll() const;
  /// Takes a tick and has the device publish it, so that completed() rises with no further call. Returns the tick.
  Tick publish() const;

  /// While one lives, launches on the stream may overlap the launch before them (programmatic launches), and covers()
  /// answers for such launches: neither they nor the last launch before the scope are covered.
  class TESSERA_API OverlapScope {
   public:
    /// Opens the scope on `stream`; scopes nest.
    explicit OverlapScope(const Stream& stream);
    /// Closes it; the next operation is ordered after all before it.
    ~OverlapScope();
    OverlapScope(const OverlapScope&) = delete;
    OverlapScope& operator=(const OverlapScope&) = delete;

   private:
    std::shared_ptr<StreamState> state_;
  };

  /// Starts capturing the operations of this stream and of those that join it.
  void begin_capture() const;
  /// Ends the capture begun on this stream. While a stream that joined it has not been joined back this is an error
  /// that names the stream and changes nothing.
  [[nodiscard]] Graph end_capture() const;
  /// Drops the capture begun on this stream; every stream in it is as before. Nothing happens when there is none.
  void abort_capture() const;
  /// Where the capture of this stream stands; id 0 when it is not capturing. The driver's word, not a cache.
  [[nodiscard]] CaptureInfo capture_info() const;
  /// A count that moves with every change of what capture_info() says, so that who has read it need not ask again;
  /// good as long as this handle. Null where only asking tells: a driver that other libraries use too does not count.
  [[nodiscard]] const std::atomic<std::uint64_t>* capture_changes() const;
  /// The incoming edges of a node of the capture that this stream takes part in.
  [[nodiscard]] Dependencies capture_predecessors(NodeId node) const;
  /// Replaces what the next captured operation of this stream depends on; see CaptureInfo::dropped.
  void set_capture_dependencies(const std::vector<NodeId>& nodes) const;
  /// Whether this stream is capturing.
  [[nodiscard]] bool is_capturing() const;

  /// Whether all work is done. Throws what is parked.
  [[nodiscard]] bool query() const;
  /// Waits for all work; throws what is parked, or TimeoutError.
  void synchronize(std::chrono::nanoseconds timeout = kForever) const;
  /// Forgets the parked error so that the stream can be used again; an error when the device itself is lost.
  void reset_error() const;

  /// What can be read of it without a lock; outlives it.
  [[nodiscard]] const StreamSlot& slot() const;
  /// Its slot among the streams of its device.
  [[nodiscard]] StreamId id() const;
  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// Its device.
  [[nodiscard]] Device device() const;
  /// Whether work on it may wait for other streams, ranks or the host.
  [[nodiscard]] bool may_spin() const;
  /// The driver's object: a CUstream; on the host an opaque pointer that wrap() takes.
  [[nodiscard]] void* native() const;
  /// Lets go of this handle.
  void reset() { state_.reset(); }
  /// The shared state.
  [[nodiscard]] const std::shared_ptr<StreamState>& state() const { return state_; }

 private:
  std::shared_ptr<StreamState> state_;
};

}  // namespace tessera::device
