// The host as a real device: asynchronous streams on threads, events, capture and parallel replay, reserved addresses
// with pages mapped on demand from one memory file, a capacity limit and faults on request. Everything above the device
// layer works and is tested on it with no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"

namespace tessera::device::host {

class SeededScheduler;

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

/// For tests: puts work on a host stream behind the back of its clocks, as a foreign library would.
TESSERA_API void launch_unseen(void* native_stream, HostFunction body);

}  // namespace tessera::device::host
