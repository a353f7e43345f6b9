#include "tessera/device/host/host_device.h"

#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/backend.h"
#include "tessera/device/host/detail/host_backend.h"

namespace tessera::device::host {
namespace {

// TODO(env): read through tessera/base/env.h (env::host_mode(), host_seed(), host_capacity(), host_checked()).
HostOptions options_from_environment() {
  const auto text = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  const auto number = [&](const char* name) { return std::strtoull(text(name).c_str(), nullptr, 0); };
  HostOptions options;
  const std::string mode = text("TESSERA_HOST_MODE");
  TESSERA_CHECK(mode.empty() || mode == "inline" || mode == "threaded" || mode == "seeded", "TESSERA_HOST_MODE is '",
                mode, "'; it can be inline, threaded or seeded");
  if (mode == "threaded") options.mode = Mode::kThreaded;
  if (mode == "seeded") options.mode = Mode::kSeeded;
  options.seed = number("TESSERA_HOST_SEED");
  options.capacity_nbytes = number("TESSERA_HOST_CAPACITY");
  options.checked = text("TESSERA_HOST_CHECKED") == "1";
  return options;
}

// The host device of one rank.
struct RankHost {
  Device device = make_host_device(options_from_environment());
};

std::vector<Device> devices_of_rank(std::string&) {
  return {current_rank()->part<RankHost>([] { return std::make_shared<RankHost>(); }).device};
}

}  // namespace

Device make_host_device(const HostOptions& options) {
  return make_device(std::make_unique<detail::HostBackend>(options), options.name, {.checked = options.checked});
}

void launch_unseen(void* native_stream, HostFunction body) {
  const auto core = detail::StreamCore::from_native(native_stream).shared_from_this();
  core->shared().check_caller();
  core->enqueue(std::move(body));
  core->drain();
}

namespace {
[[maybe_unused]] const bool kRegistered = register_device_kind({"host", &devices_of_rank});
}  // namespace

}  // namespace tessera::device::host
