// What a kind of device implements. Device, Stream, Event and Graph check arguments, keep the clocks and the capture
// rules, and then call these classes; a backend makes the driver calls and nothing else.
//
// Every StreamBackend method but native(), progress(), error() and capture_changes() is called with the stream's lock
// held, one at a time; drain(), synchronize() and idle queries are called with no lock. A method either does its work
// or throws and has changed nothing. What fails later is parked by the backend and thrown by synchronize().
//
// device/example is the smallest one there is, to be copied.
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

/// A loaded image.
class TESSERA_API ModuleBackend {
 public:
  virtual ~ModuleBackend() = default;
  /// The kernel of this name, or null.
  virtual std::shared_ptr<KernelBackend> kernel(const std::string& name) = 0;
};

/// A stopped stream.
class TESSERA_API HoldBackend {
 public:
  virtual ~HoldBackend() = default;
  /// Lets the stream go on.
  virtual void release() = 0;
  /// Whether the deadline came first.
  [[nodiscard]] virtual bool timed_out() const = 0;
};

/// Physical memory; the destructor gives it back.
class TESSERA_API MemoryBackend {
 public:
  virtual ~MemoryBackend() = default;
  /// A descriptor another process can import.
  virtual ExportedMemory export_handle() = 0;
};

/// An event; the destructor destroys it.
class TESSERA_API EventBackend {
 public:
  virtual ~EventBackend() = default;
  /// Whether the latest recorded point was reached; throws what was parked before it.
  virtual bool query() = 0;
  /// Waits for it. False: `timeout` passed first.
  virtual bool synchronize(std::chrono::nanoseconds timeout) = 0;
  /// Time since `start`, both reached and made with timing.
  virtual std::chrono::nanoseconds since(EventBackend& start) = 0;
  /// The driver's object.
  virtual void* native() = 0;
};

/// A graph; the destructor destroys it.
class TESSERA_API GraphBackend {
 public:
  virtual ~GraphBackend() = default;
  /// Nodes, each after what it depends on.
  virtual std::vector<NodeInfo> nodes() = 0;
  /// A copy of its own.
  virtual std::unique_ptr<GraphBackend> clone() = 0;
};

/// An executable graph; the destructor destroys it, launches made before run to their end.
class TESSERA_API GraphExecBackend {
 public:
  virtual ~GraphExecBackend() = default;
  /// Takes over the work of `graph`, or says why not and changes nothing.
  virtual UpdateResult update(GraphBackend& graph) = 0;
  /// Its number and that of its latest launch, kept by the caller of launch_graph() for records.
  RunningNode launched;
};

/// A strided copy: `height` rows of `width` bytes.
struct Copy2d {
  void* to;                ///< first row's target
  std::size_t to_pitch;    ///< bytes from row to row there
  const void* from;        ///< first row's source
  std::size_t from_pitch;  ///< bytes from row to row there
  std::size_t width;       ///< bytes of a row
  std::size_t height;      ///< rows
};

/// A stream; the destructor waits for nothing (it is only called when the stream is idle or the device is lost).
class TESSERA_API StreamBackend {
 public:
  virtual ~StreamBackend() = default;
  /// Launches a kernel; `overlap`: it may start before the launch before it has ended. Here and below, accesses reach
  /// a backend only on a checked device.
  virtual void launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config, const KernelArgs& args,
                      const LaunchInfo& info, bool overlap) = 0;
  /// Lets another library launch on native(), with what it needs set up for this thread; not every kind can.
  virtual void launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info, bool loads_code);
  /// Runs a host function.
  virtual void run(HostFunction&& body, const LaunchInfo& info, bool overlap) = 0;
  /// Claims the next place of the stream for work that the calling thread does at once. Returns false if work is
  /// before it, if the stream captures, or if the backend never runs work on its callers. Allocates nothing.
  virtual bool claim() noexcept { return false; }
  /// After claim(), with no lock held: does `body` in the claimed place and drops it. Parks its error.
  virtual void run_claimed(HostFunction& body) { (void)body; }
  /// Copies bytes.
  virtual void copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo& info) = 0;
  /// Copies rows.
  virtual void copy_2d(const Copy2d& rows, const LaunchInfo& info) = 0;
  /// Fills items of 1, 2 or 4 bytes.
  virtual void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
                    const LaunchInfo& info) = 0;
  /// Writes a word.
  virtual void write_value(std::uint64_t* to, std::uint64_t value) = 0;
  /// Waits for a word.
  virtual void wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare) = 0;
  /// Stops the stream; never called in capture.
  virtual std::shared_ptr<HoldBackend> hold(std::chrono::nanoseconds timeout) = 0;
  /// Records; outside capture, `tick` may be shown by progress() once the point is reached.
  virtual void record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse use) = 0;
  /// Waits for the event's latest point.
  virtual void wait(const std::shared_ptr<EventBackend>& event, EventUse use) = 0;
  /// Replays; in capture: adds it as a node.
  virtual void launch_graph(const std::shared_ptr<GraphExecBackend>& exec) = 0;
  /// Has progress() show `tick` once all work so far is done.
  virtual void publish(Tick tick) = 0;
  /// The latest tick shown. Never waits.
  [[nodiscard]] virtual Tick progress() const = 0;

  /// Starts a capture on this stream.
  virtual void begin_capture() = 0;
  /// Ends it. All forks have been joined.
  virtual std::unique_ptr<GraphBackend> end_capture() = 0;
  /// Drops it.
  virtual void abort_capture() = 0;
  /// The driver's word on whether and where this stream captures; `dropped` is filled in by the caller.
  virtual CaptureInfo capture_info() = 0;
  /// Counts up with every change of what capture_info() says of this stream, whoever makes it, and lives as long as
  /// this object; null: nobody counts. Read without a lock.
  [[nodiscard]] virtual const std::atomic<std::uint64_t>* capture_changes() const { return nullptr; }
  /// Incoming edges of a node of the capture.
  virtual Dependencies capture_predecessors(NodeId node) = 0;
  /// Replaces the dependencies of the next operation.
  virtual void set_capture_dependencies(std::span<const NodeId> nodes) = 0;

  /// Called after each operation, with no lock held: runs here what may run on the calling thread.
  virtual void drain() {}
  /// Whether all work is done.
  virtual bool is_idle() = 0;
  /// Waits for all work, whether it failed or not. False: `timeout` passed first.
  virtual bool synchronize(std::chrono::nanoseconds timeout) = 0;
  /// What is parked; null: nothing.
  virtual std::exception_ptr error() = 0;
  /// Forgets it.
  virtual void reset_error() = 0;
  /// The driver's object.
  virtual void* native() = 0;
  /// For tests: a delay before each operation.
  virtual void set_delay(std::chrono::nanoseconds delay);
  /// For tests: stops before the next operation, or goes on.
  virtual void set_stalled(bool stalled);
};

/// A device. Thread-safe.
class TESSERA_API DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  /// What it is and can do.
  virtual DeviceProperties properties() = 0;
  /// What is taken; own_nbytes is filled in by the caller, which raises process_nbytes, where given, to that.
  virtual MemoryUse memory_use() = 0;
  /// A stream; `is_default`: the device's default one.
  virtual std::unique_ptr<StreamBackend> create_stream(const StreamOptions& options, bool is_default) = 0;
  /// A stream made elsewhere.
  virtual std::unique_ptr<StreamBackend> wrap_stream(void* native) = 0;
  /// An event.
  virtual std::shared_ptr<EventBackend> create_event(const EventOptions& options) = 0;
  /// An event made elsewhere.
  virtual std::shared_ptr<EventBackend> wrap_event(void* native, const EventOptions& options) = 0;
  /// Makes a graph executable.
  virtual std::shared_ptr<GraphExecBackend> instantiate(GraphBackend& graph, const InstantiateOptions& options) = 0;

  /// Physical memory.
  virtual std::shared_ptr<MemoryBackend> create_memory(std::size_t nbytes) = 0;
  /// Memory of another process.
  virtual std::shared_ptr<MemoryBackend> import_memory(const ExportedMemory& exported) = 0;
  /// Addresses.
  virtual std::byte* reserve(std::size_t nbytes, std::size_t alignment) = 0;
  /// Gives addresses back; nothing is mapped there.
  virtual void release(std::byte* address, std::size_t nbytes) = 0;
  /// Maps all of `memory`, readable and writable.
  virtual void map(std::byte* address, MemoryBackend& memory, std::size_t nbytes) = 0;
  /// Unmaps one mapping.
  virtual void unmap(std::byte* address, std::size_t nbytes) = 0;
  /// Changes the rights of this device.
  virtual void protect(std::byte* address, std::size_t nbytes, Protection protection) = 0;
  /// Changes the rights of another device of this kind.
  virtual void share(std::byte* address, std::size_t nbytes, DeviceBackend& peer, Protection protection) = 0;
  /// Whether share() can work.
  virtual bool can_share_with(DeviceBackend& peer) = 0;
  /// Host memory visible to the device.
  virtual std::byte* allocate_pinned(std::size_t nbytes) = 0;
  /// Gives it back; may put it off while a kernel spins.
  virtual void free_pinned(std::byte* address, std::size_t nbytes) = 0;
  /// Whether an operation may read and write this host address in capture (it is not pageable memory).
  virtual bool is_capturable(const void* address) = 0;

  /// Loads kernels.
  virtual std::shared_ptr<ModuleBackend> load_module(std::span<const std::byte> image) = 0;
  /// A kernel from a function; only the host has them.
  virtual std::shared_ptr<KernelBackend> host_kernel(HostKernelFn function);
};

/// A kind of device as the registry knows it.
struct DeviceKind {
  std::string kind;  ///< "host"
  /// The devices of this kind for the current rank, made on first use; fills `why_none` when there are none.
  std::function<std::vector<Device>(std::string& why_none)> devices;
};
/// Called at the foot of the file that implements a kind; a second registration of a kind aborts. Returns true.
TESSERA_API bool register_device_kind(DeviceKind kind);

/// Extra behaviour of a device, chosen where it is made.
struct DeviceOptions {
  bool checked = false;  ///< launches must declare what they touch, and conflicts are errors
};
/// Puts a backend behind the common interface.
TESSERA_API Device make_device(std::unique_ptr<DeviceBackend> backend, std::string name, DeviceOptions options = {});

}  // namespace tessera::device
