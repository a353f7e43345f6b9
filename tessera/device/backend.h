// The interface that a kind of device implements. Device, Stream, Event and Graph check arguments, maintain clocks and
// capture rules, and then call these classes. A backend only makes the driver calls.
//
// All StreamBackend methods except native(), progress(), error() and capture_changes() are called one at a time with
// the lock of the stream held; drain(), synchronize() and idle queries are called without a lock. A method either
// succeeds, or throws and changes nothing. The backend parks later errors, and synchronize() throws them.
//
// device/example is a minimal implementation to copy.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/device/device.h"
#include "tessera/device/replay.h"

namespace tessera::device {

/// A kernel of one device.
class TESSERA_API KernelBackend {
 public:
  virtual ~KernelBackend() = default;
};

/// A loaded module image.
class TESSERA_API ModuleBackend {
 public:
  virtual ~ModuleBackend() = default;
  /// Returns the kernel of this name, or null.
  virtual std::shared_ptr<KernelBackend> kernel(const std::string& name) = 0;
};

/// A stopped stream.
class TESSERA_API HoldBackend {
 public:
  virtual ~HoldBackend() = default;
  /// Resumes the stream.
  virtual void release() = 0;
  /// Returns true if the timeout passed before release().
  [[nodiscard]] virtual bool timed_out() const = 0;
};

/// Physical memory. The destructor frees it.
class TESSERA_API MemoryBackend {
 public:
  virtual ~MemoryBackend() = default;
  /// Returns a descriptor that another process can import.
  virtual ExportedMemory export_handle() = 0;
};

/// An event. The destructor destroys it.
class TESSERA_API EventBackend {
 public:
  virtual ~EventBackend() = default;
  /// Returns true if the latest recorded point was reached. Throws an error that was parked before it.
  virtual bool query() = 0;
  /// Waits for the latest recorded point. Returns false if `timeout` passed first.
  virtual bool synchronize(std::chrono::nanoseconds timeout) = 0;
  /// Returns the time since `start`. Both events must be reached and have timing.
  virtual std::chrono::nanoseconds since(EventBackend& start) = 0;
  /// Returns the driver's object.
  virtual void* native() = 0;
};

/// A graph. The destructor destroys it.
class TESSERA_API GraphBackend {
 public:
  virtual ~GraphBackend() = default;
  /// Returns the nodes in topological order.
  virtual std::vector<NodeInfo> nodes() = 0;
  /// Returns an independent copy.
  virtual std::unique_ptr<GraphBackend> clone() = 0;
};

/// An executable graph. The destructor destroys it; earlier launches complete.
class TESSERA_API GraphExecBackend {
 public:
  virtual ~GraphExecBackend() = default;
  /// Replaces its work by that of `graph`. If that is impossible, returns the reason and changes nothing.
  virtual UpdateResult update(GraphBackend& graph) = 0;
  /// Number of the executable and of its latest launch; the caller of launch_graph() maintains it for records.
  RunningNode launched;
};

/// A strided copy: `height` rows of `width` bytes.
struct Copy2d {
  void* to;                ///< target of the first row
  std::size_t to_pitch;    ///< distance of target rows in bytes
  const void* from;        ///< source of the first row
  std::size_t from_pitch;  ///< distance of source rows in bytes
  std::size_t width;       ///< bytes per row
  std::size_t height;      ///< number of rows
};

/// A stream. The destructor does not wait; it is called only if the stream is idle or the device is lost.
class TESSERA_API StreamBackend {
 public:
  virtual ~StreamBackend() = default;
  /// Launches a kernel. If `overlap`, it may start before the previous launch has ended. Here and below, accesses are
  /// passed only on a checked device.
  virtual void launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config, const KernelArgs& args,
                      const LaunchInfo& info, bool overlap) = 0;
  /// Calls `body`, which launches work of another library on native(), with the driver state of this thread set up. Not
  /// supported by all kinds.
  virtual void launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info, bool loads_code);
  /// Runs a host function.
  virtual void run(HostFunction&& body, const LaunchInfo& info, bool overlap) = 0;
  /// Claims the next position of the stream for work that the calling thread runs immediately. Returns false if earlier
  /// work is pending, if the stream captures, or if the backend never runs work on its callers. Allocates nothing.
  virtual bool claim() noexcept { return false; }
  /// Runs `body` in the claimed position and destroys it; called after claim(), without a lock. Parks its error.
  virtual void run_claimed(HostFunction& body) { (void)body; }
  /// Copies bytes.
  virtual void copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo& info) = 0;
  /// Copies rows.
  virtual void copy_2d(const Copy2d& rows, const LaunchInfo& info) = 0;
  /// Fills `count` items of 1, 2 or 4 bytes.
  virtual void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
                    const LaunchInfo& info) = 0;
  /// Writes a 64-bit value.
  virtual void write_value(std::uint64_t* to, std::uint64_t value) = 0;
  /// Waits until a 64-bit word compares true with `value`.
  virtual void wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare) = 0;
  /// Stops the stream. Never called in a capture.
  virtual std::shared_ptr<HoldBackend> hold(std::chrono::nanoseconds timeout) = 0;
  /// Records the event. Outside a capture, progress() may return `tick` once the point is reached.
  virtual void record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse use) = 0;
  /// Waits for the latest point of the event.
  virtual void wait(const std::shared_ptr<EventBackend>& event, EventUse use) = 0;
  /// Replays the graph; in a capture, adds it as a node.
  virtual void launch_graph(const std::shared_ptr<GraphExecBackend>& exec) = 0;
  /// Makes progress() return `tick` once all earlier work has completed.
  virtual void publish(Tick tick) = 0;
  /// Returns the latest published tick. Never waits.
  [[nodiscard]] virtual Tick progress() const = 0;

  /// Starts a capture on this stream.
  virtual void begin_capture() = 0;
  /// Ends the capture. All forks have been joined.
  virtual std::unique_ptr<GraphBackend> end_capture() = 0;
  /// Discards the capture.
  virtual void abort_capture() = 0;
  /// Queries the capture state of this stream from the driver. The caller fills in `dropped`.
  virtual CaptureInfo capture_info() = 0;
  /// Returns a counter that increases with every change of capture_info(), whatever its cause, and lives as long as
  /// this object; null if changes are not counted. Read without a lock.
  [[nodiscard]] virtual const std::atomic<std::uint64_t>* capture_changes() const { return nullptr; }
  /// Returns the incoming edges of a node of the capture.
  virtual Dependencies capture_predecessors(NodeId node) = 0;
  /// Replaces the dependencies of the next captured operation.
  virtual void set_capture_dependencies(std::span<const NodeId> nodes) = 0;

  /// Called after each operation, without a lock: runs the work that may run on the calling thread.
  virtual void drain() {}
  /// Returns true if all work has completed.
  virtual bool is_idle() = 0;
  /// Waits for all work, failed or not. Returns false if `timeout` passed first.
  virtual bool synchronize(std::chrono::nanoseconds timeout) = 0;
  /// Returns the parked error, or null.
  virtual std::exception_ptr error() = 0;
  /// Clears the parked error.
  virtual void reset_error() = 0;
  /// Returns the driver's object.
  virtual void* native() = 0;
  /// For tests: sets a delay before each operation.
  virtual void set_delay(std::chrono::nanoseconds delay);
  /// For tests: stops the stream before the next operation, or resumes it.
  virtual void set_stalled(bool stalled);
};

/// A device. Thread-safe.
class TESSERA_API DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  /// Returns its properties and capabilities.
  virtual DeviceProperties properties() = 0;
  /// Returns the memory use. The caller fills in own_nbytes and raises process_nbytes, if set, to at least that.
  virtual MemoryUse memory_use() = 0;
  /// Creates a stream. `is_default` is true for the default stream of the device.
  virtual std::unique_ptr<StreamBackend> create_stream(const StreamOptions& options, bool is_default) = 0;
  /// Wraps a native stream.
  virtual std::unique_ptr<StreamBackend> wrap_stream(void* native) = 0;
  /// Creates an event.
  virtual std::shared_ptr<EventBackend> create_event(const EventOptions& options) = 0;
  /// Wraps a native event.
  virtual std::shared_ptr<EventBackend> wrap_event(void* native, const EventOptions& options) = 0;
  /// Creates an executable graph.
  virtual std::shared_ptr<GraphExecBackend> instantiate(GraphBackend& graph, const InstantiateOptions& options) = 0;

  /// Creates physical memory.
  virtual std::shared_ptr<MemoryBackend> create_memory(std::size_t nbytes) = 0;
  /// Imports memory of another process.
  virtual std::shared_ptr<MemoryBackend> import_memory(const ExportedMemory& exported) = 0;
  /// Reserves addresses.
  virtual std::byte* reserve(std::size_t nbytes, std::size_t alignment) = 0;
  /// Releases addresses without mappings.
  virtual void release(std::byte* address, std::size_t nbytes) = 0;
  /// Maps all of `memory`, readable and writable.
  virtual void map(std::byte* address, MemoryBackend& memory, std::size_t nbytes) = 0;
  /// Unmaps one mapping.
  virtual void unmap(std::byte* address, std::size_t nbytes) = 0;
  /// Changes the access rights of this device.
  virtual void protect(std::byte* address, std::size_t nbytes, Protection protection) = 0;
  /// Changes the access rights of another device of this kind.
  virtual void share(std::byte* address, std::size_t nbytes, DeviceBackend& peer, Protection protection) = 0;
  /// Returns true if memory can be shared with `peer`.
  virtual bool can_share_with(DeviceBackend& peer) = 0;
  /// Allocates host memory that the device can access.
  virtual std::byte* allocate_pinned(std::size_t nbytes) = 0;
  /// Frees pinned memory; may defer it while a kernel spins.
  virtual void free_pinned(std::byte* address, std::size_t nbytes) = 0;
  /// Returns true if a captured operation may access this host address, that is, if it is not pageable memory.
  virtual bool is_capturable(const void* address) = 0;

  /// Loads kernels from an image.
  virtual std::shared_ptr<ModuleBackend> load_module(std::span<const std::byte> image) = 0;
  /// Creates a kernel from a function; host only.
  virtual std::shared_ptr<KernelBackend> host_kernel(HostKernelFn function);
};

/// A registered kind of device.
struct DeviceKind {
  std::string kind;  ///< for example "host"
  /// Creates the devices of this kind for the current rank, on first use. If there are none, sets `why_none`.
  std::function<std::vector<Device>(std::string& why_none)> devices;
  bool is_listed = true;  ///< false: Device::all() omits the devices of this kind, which get() finds
};
/// Registers a kind; called at the end of the file that implements it. A second registration of a kind aborts. Returns
/// true.
TESSERA_API bool register_device_kind(DeviceKind kind);

/// Options of make_device().
struct DeviceOptions {
  bool checked = false;  ///< launches must declare their accesses, and conflicts are errors
};
/// Creates a Device from a backend.
TESSERA_API Device make_device(std::unique_ptr<DeviceBackend> backend, std::string name, DeviceOptions options = {});

}  // namespace tessera::device
