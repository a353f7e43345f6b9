#include "tessera/comm/device_of_rank.h"

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/world_state.h"

namespace tessera::comm {
namespace {

std::string why_absent(std::string_view kind) {
  for (const device::AbsentKind& absent : device::Device::absent()) {
    if (absent.kind == kind) return absent.reason;
  }
  return "this build has no such kind";
}

}  // namespace

std::optional<std::size_t> device_of_rank(const DeviceShares& shares) {
  if (shares.devices == 0) return std::nullopt;
  if (shares.are_threads) return 0;
  if (shares.devices >= static_cast<std::size_t>(shares.local_world_size))
    return static_cast<std::size_t>(shares.local_rank);
  if (shares.has_own_view) return 0;
  return std::nullopt;
}

bool has_own_devices(const EnvironmentMap& environment) {
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (visible == environment.end() || visible->second.empty()) return false;
  const std::string launcher = read_launch_environment(environment).launcher;
  return !launcher.empty() && launcher != "tessera run" && launcher != "torchrun";
}

bool ranks_are_threads() {
  return current_place().world_size > 1 && detail::WorldState::current().simulated() != nullptr;
}

bool shares_device(const device::Device& device) {
  return device.properties().kind != "host" && device.properties().has_values && ranks_are_threads();
}

device::Device device_of_rank(std::string_view kind) {
  std::vector<device::Device> devices;
  for (const device::Device& each : device::Device::all()) {
    if (each.properties().kind == kind) devices.push_back(each);
  }
  TESSERA_CHECK_AS(NotSupported, !devices.empty(), "device ", kind, ": not available: ", why_absent(kind));
  const RankPlace& place = current_place();
  const std::optional<std::size_t> index = device_of_rank({.devices = devices.size(),
                                                           .local_rank = place.local_rank,
                                                           .local_world_size = place.local_world_size,
                                                           .are_threads = ranks_are_threads(),
                                                           .has_own_view = has_own_devices(process_environment())});
  TESSERA_CHECK_AS(NotSupported, index.has_value(), "device ", kind, ": requires one per rank of this machine, got ",
                   devices.size(), " for ", place.local_world_size,
                   " ranks; start fewer ranks, or use --ranks-as threads, whose ranks share one device");
  return devices[*index];
}

std::string why_not_connected(const std::string& device_kind) {
  const RankPlace& place = current_place();
  if (place.world_size == 1) return {};
  ConnectRequest request{.name = "world"};
  for (int rank = 0; rank < place.world_size; ++rank) request.ranks.emplace_back(rank);
  request.rank = place.rank.value();
  std::string reasons;
  for (const BackendInfo& backend : all_backends()) {
    const auto& kinds = backend.capabilities.device_kinds;
    if (!backend.is_suggested || std::ranges::find(kinds, device_kind) == kinds.end()) continue;
    const std::string why_not = backend.why_not(request);
    if (why_not.empty()) return {};
    reasons += (reasons.empty() ? "" : "; ") + std::string(backend.name) + ": " + why_not;
  }
  return "no backend connects ranks with memory of " + device_kind + (reasons.empty() ? "" : ": " + reasons);
}

}  // namespace tessera::comm
