// Comparison of the memory that a run is predicted to need (predict.h) with the memory of this host, before the run
// starts.
//
//   train: predicted peak 31.2 GiB per rank exceeds 22.9 GiB free on host; use --mesh.fsdp 2 (16.1 GiB); --force tries
//   anyway
//
// The trainer computes on the host, and the ranks of one host share its memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Memory that the ranks of one host may use.
struct MemoryLimits {
  std::optional<std::int64_t> host_nbytes = {};  ///< Bytes shared by all ranks of the host. Unset: unknown.
  std::int64_t rank_nbytes = 0;                  ///< Limit of each rank, TESSERA_HOST_CAPACITY. 0: no limit.
  int ranks = 1;                                 ///< Ranks of the run on this host.
  /// Remaining address space of each rank (RLIMIT_AS, ulimit -v). Unset: no limit.
  std::optional<std::int64_t> address_nbytes = {};
  /// Free memory of the device that holds the tensors. Unset: host memory holds them.
  std::optional<std::int64_t> device_nbytes = {};
  std::string device = {};  ///< Name of that device.
  int device_ranks = 1;     ///< Ranks that share it.
};

/// Returns the bytes that new allocations on this host may use: MemAvailable, or less if a cgroup of this process
/// leaves less. Returns nothing if the system does not report them. `root` is the directory that holds proc/ and sys/.
TESSERA_API std::optional<std::int64_t> free_host_memory(const std::filesystem::path& root = "/");

/// Returns the address space that this process may still map, in bytes: RLIMIT_AS minus the mapped size. Returns
/// nothing if no limit is set.
TESSERA_API std::optional<std::int64_t> free_address_space();

/// Returns the limits of this host, on which `ranks` ranks run.
TESSERA_API MemoryLimits host_limits(int ranks);
/// Returns the limits of a device of the calling rank, and of its host. For the host device, those of the host.
TESSERA_API MemoryLimits limits_of(const device::Device& device);

/// Returns the largest train.batch, at most that of the configuration, whose predicted tensors on each rank need at
/// most `nbytes`; nothing if no batch does.
TESSERA_API std::optional<std::int64_t> largest_batch(const Config& config, int world_size, std::int64_t nbytes);

/// Returns the predicted peak of one rank, in bytes. With checkpoint.every it includes the copy of parameters and
/// optimizer state that a checkpoint is written from. Throws what resolved() throws.
TESSERA_API std::int64_t predicted_peak(const Config& config, int world_size);

/// Returns why a run with these options does not fit, with sizes and with options that fit. Returns "" if it fits.
TESSERA_API std::string memory_refusal(const Config& config, int world_size, const MemoryLimits& limits);

/// Returns advice after a step ran out of memory of a device: the largest batch that fits by prediction.
TESSERA_API std::string batch_advice(const Config& config, int world_size, const device::Device& device);

/// Throws InvalidArgument with memory_refusal() for these limits. Does nothing with run.force.
TESSERA_API void check_memory(const Config& config, int world_size, const MemoryLimits& limits);

}  // namespace tessera::train
