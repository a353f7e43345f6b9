// Devices: where streams run and memory lives.
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

/// What a device is and can do.
struct DeviceProperties {
  std::string kind;                ///< "host", "cuda"
  int index = 0;                   ///< place among the devices of its kind
  std::string description;         ///< for people: "NVIDIA H200", "AMD EPYC, 2 cores"
  std::string driver;              ///< driver and version, for people
  std::size_t memory_nbytes = 0;   ///< memory in all
  std::size_t granularity = 0;     ///< unit of Memory sizes and AddressRange offsets
  int multiprocessors = 0;         ///< SMs or cores
  bool has_export = false;         ///< Memory can be exported to another process
  bool has_overlap = false;        ///< launches in an OverlapScope really may overlap
  bool is_lossy_on_error = false;  ///< a failed kernel loses the device for the whole process
};

/// How much of a device's memory is taken.
struct MemoryUse {
  std::size_t total_nbytes = 0;  ///< the device's memory, or the limit set on it
  std::size_t free_nbytes = 0;   ///< what can still be created
  std::size_t own_nbytes = 0;    ///< created through this Device and not yet gone
  /// What this whole process takes, other libraries included: at least own_nbytes; nullopt: the device cannot tell.
  std::optional<std::size_t> process_nbytes = std::nullopt;
};

/// A kind of device that this build has but this machine has not, and why.
struct AbsentKind {
  std::string kind;    ///< "cuda"
  std::string reason;  ///< "no driver: libcuda.so.1 was not found"
};

/// Kernels loaded from an image. A shared handle.
class TESSERA_API Module {
 public:
  /// No module.
  Module() = default;
  /// Made by Device::load_module.
  Module(std::shared_ptr<DeviceState> device, std::shared_ptr<ModuleBackend> backend)
      : device_(std::move(device)), backend_(std::move(backend)) {}
  /// The kernel of this name; an error when there is none.
  [[nodiscard]] Kernel kernel(const std::string& name) const;

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<ModuleBackend> backend_;
};

/// A device. A cheap shared handle. Thread-safe.
class TESSERA_API Device {
 public:
  /// No device.
  Device() = default;
  /// Made by the registry and by a kind's own maker.
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}
  /// The device of this name: "host" (the current rank's), "cuda" or "cuda:1". An error lists those there are.
  static Device get(std::string_view name);
  /// All devices of this process, the current rank's host first.
  static std::vector<Device> all();
  /// The kinds that were built but cannot be used here.
  static std::vector<AbsentKind> absent();
  /// Whether there is a device.
  explicit operator bool() const { return state_ != nullptr; }

  /// "host", "cuda:0".
  [[nodiscard]] const std::string& name() const;
  /// What it is and can do.
  [[nodiscard]] const DeviceProperties& properties() const;
  /// How much of its memory is taken. Asks the driver, which takes its time: not for hot paths.
  [[nodiscard]] MemoryUse memory_use() const;

  /// The stream that is used when none is named. Always the same one.
  [[nodiscard]] Stream default_stream() const;
  /// A new stream.
  [[nodiscard]] Stream create_stream(StreamOptions options = {}) const;
  /// A new event.
  [[nodiscard]] Event create_event(EventOptions options = {}) const;
  /// The latest tick of `stream` known to have completed; also for a stream that is gone.
  [[nodiscard]] Tick completed(StreamId stream) const;
  /// As completed(), after asking the driver whether the stream is idle. Never waits.
  Tick poll(StreamId stream) const;  // NOLINT(modernize-use-nodiscard): asked for its effect too
  /// The stream in this slot; an empty handle when it is gone.
  [[nodiscard]] Stream stream(StreamId id) const;
  /// What can be read of the stream in this slot without a lock; also when it is gone.
  [[nodiscard]] const StreamSlot& slot(StreamId id) const;
  /// Captures under way that were begun through us.
  [[nodiscard]] std::size_t captures() const;
  /// Waits for all streams; throws what is parked on any, or TimeoutError.
  void synchronize(std::chrono::nanoseconds timeout = kForever) const;

  /// New physical memory; `nbytes` a multiple of the granularity.
  [[nodiscard]] Memory create_memory(std::size_t nbytes) const;
  /// Memory exported by another process; the descriptor is not taken over.
  [[nodiscard]] Memory import_memory(const ExportedMemory& exported) const;
  /// New addresses with nothing behind them. `alignment` a power of two, at least the granularity or 0 for that.
  [[nodiscard]] AddressRange reserve(std::size_t nbytes, std::size_t alignment = 0) const;
  /// Host memory that this device reads and writes in place.
  [[nodiscard]] PinnedMemory allocate_pinned(std::size_t nbytes) const;
  /// Whether memory of this device can be shared with `peer`.
  [[nodiscard]] bool can_share_with(const Device& peer) const;

  /// Loads kernels from an image (CUDA: a fat binary, cubin or PTX).
  [[nodiscard]] Module load_module(std::span<const std::byte> image) const;
  /// A kernel of the host device from a function.
  [[nodiscard]] Kernel host_kernel(std::string name, HostKernelFn function) const;

  /// Faults on request, for tests.
  [[nodiscard]] FaultInjector& faults() const;
  /// For tests: waits `delay` before each operation of `stream`; 0 ends it. Host only.
  void delay_stream(const Stream& stream, std::chrono::nanoseconds delay) const;
  /// For tests: stops `stream` before its next operation until called with false. Host only.
  void stall_stream(const Stream& stream, bool stalled) const;
  /// Whether launches are checked for missing order.
  [[nodiscard]] bool is_checked() const;
  /// For a checked device: says that bytes were given back, so that touching them is an error naming `by`, or given
  /// out.
  void note_freed(const void* address, std::size_t nbytes, std::string_view by) const;
  /// The opposite of note_freed.
  void note_allocated(const void* address, std::size_t nbytes) const;

  /// Same device.
  friend bool operator==(const Device& a, const Device& b) { return a.state_ == b.state_; }
  /// The shared state.
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
