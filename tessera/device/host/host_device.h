// The host as a device: asynchronous streams on threads, events, capture and parallel replay, reserved addresses whose
// pages are mapped on demand from one memory file, a capacity limit, and fault injection. All layers above the device
// layer work and are tested on it without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/device/host/seeded_scheduler.h"

namespace tessera::device::host {

namespace detail {
class HostBackend;
}

/// Execution modes of the streams of a host device.
enum class Mode : std::uint8_t {
  kInline,    ///< the default stream runs on the caller if no earlier work is pending; other streams have a thread each
  kThreaded,  ///< each stream has a thread
  kSeeded,    ///< each stream has a thread; only one runs at a time, in an order that the seed determines
};

/// Options of a host device. The device of the current rank is created from the TESSERA_HOST_* variables.
struct HostOptions {
  Mode mode = Mode::kInline;  ///< execution mode of the streams
  std::uint64_t seed = 0;     ///< kSeeded: seed of the interleaving
  /// kSeeded: a shared scheduler; null: a new one that includes the caller
  std::shared_ptr<SeededScheduler> scheduler = nullptr;
  std::size_t capacity_nbytes = 0;  ///< maximum bytes of Memory; 0: the memory of the machine
  bool checked = false;             ///< launches must declare their accesses
  std::string name = "host";        ///< shown in errors
};

/// Creates a host device that is separate from the current rank's device.
TESSERA_API Device make_host_device(const HostOptions& options = {});

/// Creates the host device of the current rank with these options. Throws if the rank already has one.
TESSERA_API Device make_rank_host_device(const HostOptions& options);

/// Returns true if the host device has threads that run its streams. Otherwise its callers run all work.
TESSERA_API bool has_threads(const Device& device);

/// The memory file of a host device, which another process of this machine can map. It contains all memory that the
/// device creates. The file never shrinks. Keeps the device alive. Thread-safe.
class TESSERA_API MemoryFileView {
 public:
  /// Opens the memory file of this device. Throws if it is not a host device.
  explicit MemoryFileView(const Device& device);
  /// Returns the descriptor of the file, valid while the view lives.
  [[nodiscard]] int descriptor() const;
  /// Returns the file offset of [address, address + nbytes), or nullopt if the bytes are not all memory of this device
  /// or not contiguous in the file.
  [[nodiscard]] std::optional<std::uint64_t> find(const void* address, std::size_t nbytes) const;
  /// Returns a counter that changes with every map and unmap of the device. A result of find() is valid while the
  /// counter, read before the call of find(), stays the same.
  [[nodiscard]] std::uint64_t epoch() const;

 private:
  Device device_;
  const detail::HostBackend* backend_;
};

/// For tests: enqueues work on a host stream without updating its clocks, as a foreign library would.
TESSERA_API void launch_unseen(void* native_stream, HostFunction body);

}  // namespace tessera::device::host
