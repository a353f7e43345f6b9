// The host as a real device: asynchronous streams on threads, events, capture and parallel replay, reserved addresses
// with pages mapped on demand from one memory file, a capacity limit and faults on request. Everything above the device
// layer works and is tested on it with no GPU.
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

/// How the streams of a host device run.
enum class Mode : std::uint8_t {
  kInline,    ///< the default stream on the caller when nothing before is pending, every other on its own thread
  kThreaded,  ///< every stream on its own thread
  kSeeded,    ///< every stream on its own thread, one of all running at a time, chosen by a seed
};

/// How a host device is made. The current rank's own is made from the TESSERA_HOST_* variables.
struct HostOptions {
  Mode mode = Mode::kInline;                             ///< how streams run
  std::uint64_t seed = 0;                                ///< kSeeded: which interleaving
  std::shared_ptr<SeededScheduler> scheduler = nullptr;  ///< kSeeded: share one; null: its own, with the caller in it
  std::size_t capacity_nbytes = 0;                       ///< most Memory that can be created; 0: the machine's memory
  bool checked = false;                                  ///< launches must declare what they touch
  std::string name = "host";                             ///< shown in errors
};

/// A host device of its own, apart from the current rank's.
TESSERA_API Device make_host_device(const HostOptions& options = {});

/// Makes the current rank's own host device with these options; an error when it has one already.
TESSERA_API Device make_rank_host_device(const HostOptions& options);

/// Whether a host device has threads that run its streams; without, all that it does is done by who calls it.
TESSERA_API bool has_threads(const Device& device);

/// The memory file of a host device, as another process of this machine can map it: all memory that the device creates
/// is in it, wherever it is mapped here. The file grows and never shrinks. Keeps the device. Thread-safe.
class TESSERA_API MemoryFileView {
 public:
  /// Of this device; an error unless it is a host device.
  explicit MemoryFileView(const Device& device);
  /// The file's descriptor, for as long as the view lives.
  [[nodiscard]] int descriptor() const;
  /// Where in the file the bytes at [address, address + nbytes) are; nullopt: they are not all memory of this device,
  /// or not in a row there.
  [[nodiscard]] std::optional<std::uint64_t> find(const void* address, std::size_t nbytes) const;
  /// Moves with every map and unmap of the device: an answer of find() holds while it stands still, if it was read
  /// before that was asked for.
  [[nodiscard]] std::uint64_t epoch() const;

 private:
  Device device_;
  const detail::HostBackend* backend_;
};

/// For tests: puts work on a host stream behind the back of its clocks, as a foreign library would.
TESSERA_API void launch_unseen(void* native_stream, HostFunction body);

}  // namespace tessera::device::host
