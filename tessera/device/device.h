// Devices run streams and hold memory.
//
//   Device host = Device::get("host");        // this rank's own
//   Device gpu  = Device::get("cuda:0");      // shared by the ranks of this process
//
// A kind of device is one folder under tessera/device/ that implements the classes of backend.h and registers itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/event.h"
#include "tessera/device/faults.h"
#include "tessera/device/launch.h"
#include "tessera/device/memory.h"
#include "tessera/device/stream.h"

namespace tessera::device {

/// Properties and capabilities of a device.
struct DeviceProperties {
  std::string kind;                ///< "host", "cuda" or "meta"
  int index = 0;                   ///< index among the devices of its kind
  std::string description;         ///< human-readable: "NVIDIA H200", "AMD EPYC, 2 cores"
  std::string driver;              ///< driver and version, human-readable
  std::size_t memory_nbytes = 0;   ///< total memory
  std::size_t granularity = 0;     ///< granularity of Memory sizes and AddressRange offsets, in bytes
  int multiprocessors = 0;         ///< number of SMs or cores
  bool has_export = false;         ///< Memory can be exported to another process
  bool has_overlap = false;        ///< launches in an OverlapScope can overlap
  bool is_lossy_on_error = false;  ///< a failed kernel makes the device unusable for the process
  bool has_values = true;          ///< memory has contents; if false, no kernel runs and no value can be read (meta)
};

/// Memory use of a device.
struct MemoryUse {
  std::size_t total_nbytes = 0;  ///< memory of the device, or the limit set on it
  std::size_t free_nbytes = 0;   ///< bytes that can still be created
  std::size_t own_nbytes = 0;    ///< bytes created through this Device and not yet freed
  /// Bytes used by this process, including other libraries; at least own_nbytes. nullopt if the device does not report
  /// it.
  std::optional<std::size_t> process_nbytes = std::nullopt;
};

/// A kind of device that is built in but not usable on this machine, and the reason.
struct AbsentKind {
  std::string kind;    ///< for example "cuda"
  std::string reason;  ///< for example "no driver: libcuda.so.1 was not found"
};

/// Kernels loaded from an image. Copies share the module.
class TESSERA_API Module {
 public:
  /// Constructs an empty handle.
  Module() = default;
  /// Constructs a handle. Called by Device::load_module.
  Module(std::shared_ptr<DeviceState> device, std::shared_ptr<ModuleBackend> backend)
      : device_(std::move(device)), backend_(std::move(backend)) {}
  /// Returns the kernel of this name. Throws if the module has none.
  [[nodiscard]] Kernel kernel(const std::string& name) const;

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<ModuleBackend> backend_;
};

/// Handle to a device. Copies share the device. Thread-safe.
class TESSERA_API Device {
 public:
  /// Constructs an empty handle.
  Device() = default;
  /// Constructs a handle. Called by the registry and by the factory functions of each kind.
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}
  /// Same as get(name), so that options and arguments can be written as "cuda:0".
  Device(const char* name) : Device(get(name)) {}  // NOLINT(google-explicit-constructor)
  /// Same as get(name).
  Device(const std::string& name) : Device(get(name)) {}  // NOLINT(google-explicit-constructor)
  /// Returns the device of this name: "host" or "meta" (of the current rank), "cuda" or "cuda:1". Throws an error that
  /// lists the available devices if the name is unknown.
  static Device get(std::string_view name);
  /// Returns all devices of this process that compute; the host of the current rank is first.
  static std::vector<Device> all();
  /// Returns the kinds that are built in but not usable here.
  static std::vector<AbsentKind> absent();
  /// Returns true if the handle refers to a device.
  explicit operator bool() const { return state_ != nullptr; }

  /// Returns the name: "host", "cuda:0".
  [[nodiscard]] const std::string& name() const;
  /// Returns the properties and capabilities.
  [[nodiscard]] const DeviceProperties& properties() const;
  /// Returns the memory use. Calls the driver, which is slow; do not use it on hot paths.
  [[nodiscard]] MemoryUse memory_use() const;

  /// Returns the default stream; always the same one.
  [[nodiscard]] Stream default_stream() const;
  /// Creates a stream.
  [[nodiscard]] Stream create_stream(StreamOptions options = {}) const;
  /// Creates an event.
  [[nodiscard]] Event create_event(EventOptions options = {}) const;
  /// Returns the latest tick of `stream` that is known to have completed. `stream` may have been destroyed.
  [[nodiscard]] Tick completed(StreamId stream) const;
  /// Queries the driver whether the stream is idle, and returns completed(). Never waits.
  Tick poll(StreamId stream) const;  // NOLINT(modernize-use-nodiscard): asked for its effect too
  /// Returns the stream in this slot, or an empty handle if it has been destroyed.
  [[nodiscard]] Stream stream(StreamId id) const;
  /// Returns the state of the stream in this slot that can be read without a lock, even after its destruction.
  [[nodiscard]] const StreamSlot& slot(StreamId id) const;
  /// Returns the number of active captures that Tessera began.
  [[nodiscard]] std::size_t captures() const;
  /// Waits for all streams. Throws a parked error of any of them, or TimeoutError.
  void synchronize(std::chrono::nanoseconds timeout = kForever) const;

  /// Creates physical memory; `nbytes` must be a multiple of the granularity.
  [[nodiscard]] Memory create_memory(std::size_t nbytes) const;
  /// Imports memory exported by another process. Does not take ownership of the descriptor.
  [[nodiscard]] Memory import_memory(const ExportedMemory& exported) const;
  /// Reserves addresses without memory. `alignment` must be a power of two and at least the granularity, or 0 for the
  /// granularity.
  [[nodiscard]] AddressRange reserve(std::size_t nbytes, std::size_t alignment = 0) const;
  /// Allocates host memory that this device can access directly.
  [[nodiscard]] PinnedMemory allocate_pinned(std::size_t nbytes) const;
  /// Returns true if memory of this device can be shared with `peer`.
  [[nodiscard]] bool can_share_with(const Device& peer) const;
  /// Returns true if kernels and captured operations may access this address: device or pinned memory, not pageable
  /// host memory. On the host, any address.
  [[nodiscard]] bool is_capturable(const void* address) const;

  /// Loads kernels from an image (CUDA: a fat binary, cubin or PTX).
  [[nodiscard]] Module load_module(std::span<const std::byte> image) const;
  /// Creates a kernel of the host device from a function.
  [[nodiscard]] Kernel host_kernel(std::string name, HostKernelFn function) const;

  /// Function that throws the error of work that cannot park it: of a kernel that wrote a report to pinned memory.
  /// With `is_reset`, it clears the report and must not throw.
  using WaitCheck = void (*)(const DeviceState& device, bool is_reset);
  /// Makes each successful wait for a stream or an event of this device call `check`, and Stream::reset_error call it
  /// with `is_reset`. Replaces the previous function. Thread-safe.
  void set_wait_check(WaitCheck check) const;

  /// Returns the fault injector of this device, for tests.
  [[nodiscard]] FaultInjector& faults() const;
  /// For tests: delays each operation of `stream` by `delay`; 0 removes the delay. Host only.
  void delay_stream(const Stream& stream, std::chrono::nanoseconds delay) const;
  /// For tests: if `stalled`, stops `stream` before its next operation; otherwise resumes it. Host only.
  void stall_stream(const Stream& stream, bool stalled) const;
  /// Returns true if launches are checked for missing order.
  [[nodiscard]] bool is_checked() const;
  /// Declares on a checked device that bytes were freed. A later access is an error that names `by`.
  void note_freed(const void* address, std::size_t nbytes, std::string_view by) const;
  /// Declares on a checked device that bytes were allocated again.
  void note_allocated(const void* address, std::size_t nbytes) const;

  /// Returns true if both refer to the same device.
  friend bool operator==(const Device& a, const Device& b) { return a.state_ == b.state_; }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<DeviceState>& state() const { return state_; }

 private:
  std::shared_ptr<DeviceState> state_;
};

}  // namespace tessera::device

namespace tessera {
using device::Device;
using device::Event;
using device::Stream;
}  // namespace tessera
