// The device of each rank of a machine that has several devices of one kind.
//
//   const device::Device gpu = comm::device_of_rank("cuda");     // cuda:3 in local rank 3
//
// Each rank that is a process has a device of its own. Ranks that are threads of one process share the first device.
// Devices that the environment hides (CUDA_VISIBLE_DEVICES) do not count: a process does not see them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/base/rank.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/device/device.h"

namespace tessera::comm {

/// The devices that the ranks of a machine divide.
struct DeviceShares {
  std::size_t devices = 0;    ///< Devices of the kind that this process sees.
  int local_rank = 0;         ///< Index of the rank among those of the machine.
  int local_world_size = 1;   ///< Ranks of the machine.
  bool are_threads = false;   ///< True if the ranks are threads of one process.
  bool has_own_view = false;  ///< True if the launcher lets each rank see other devices.
};
/// Returns the index of the device of a rank; nothing if there are fewer devices than ranks.
TESSERA_API std::optional<std::size_t> device_of_rank(const DeviceShares& shares);

/// Returns true if the launcher of this environment sets the visible devices of each rank: they are limited, and not by
/// a launcher whose ranks have equal environments (tessera run, torchrun).
TESSERA_API bool has_own_devices(const EnvironmentMap& environment);

/// Returns true if other ranks of the world are threads of this process.
TESSERA_API bool ranks_are_threads();

/// Returns true if other ranks, threads of this process, compute on this device too. Host devices belong to one rank.
TESSERA_API bool shares_device(const device::Device& device);

/// Returns the device of this kind for the calling rank. Throws NotSupported if the machine has none, with the reason,
/// or fewer than ranks.
TESSERA_API device::Device device_of_rank(std::string_view kind);

/// Returns why no backend connects the ranks of the world in memory of this kind of device; empty if one does, or if
/// the world has one rank.
TESSERA_API std::string why_not_connected(const std::string& device_kind);

}  // namespace tessera::comm
