#include "tessera/device/host/host_device.h"

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/backend.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/host/detail/host_backend.h"

namespace tessera::device::host {
namespace {

HostOptions options_from_environment() {
  HostOptions options;
  if (env::host_mode() == "threaded") options.mode = Mode::kThreaded;
  if (env::host_mode() == "seeded") options.mode = Mode::kSeeded;
  options.seed = env::host_seed();
  options.capacity_nbytes = env::host_capacity();
  options.checked = env::host_checked();
  return options;
}

// The host device of one rank.
struct RankHost {
  Device device;
};

Device device_of_rank(const HostOptions& options) {
  return current_rank()
      ->part<RankHost>([&] { return std::make_shared<RankHost>(RankHost{make_host_device(options)}); })
      .device;
}

std::vector<Device> devices_of_rank(std::string&) {
  const auto* made = current_rank()->find_part<RankHost>();
  return {made != nullptr ? made->device : device_of_rank(options_from_environment())};
}

}  // namespace

Device make_host_device(const HostOptions& options) {
  return make_device(std::make_unique<detail::HostBackend>(options), options.name, {.checked = options.checked});
}

Device make_rank_host_device(const HostOptions& options) {
  TESSERA_CHECK(current_rank()->find_part<RankHost>() == nullptr, "rank ", current_place().rank,
                " already has a host device; create it before the first use");
  return device_of_rank(options);
}

bool has_threads(const Device& device) {
  const auto* backend = dynamic_cast<const detail::HostBackend*>(device.state()->backend.get());
  TESSERA_CHECK(backend != nullptr, device.name(), " is not a host device");
  return backend->shared().has_threads();
}

MemoryFileView::MemoryFileView(const Device& device) : device_(device) {
  TESSERA_CHECK(device_.state() != nullptr, "Device must not be empty; get one with Device::get(\"host\")");
  backend_ = dynamic_cast<const detail::HostBackend*>(device_.state()->backend.get());
  TESSERA_CHECK(backend_ != nullptr, device_.name(), " has no memory file; it is not a host device");
}

int MemoryFileView::descriptor() const { return backend_->file().fd(); }
std::optional<std::uint64_t> MemoryFileView::find(const void* address, std::size_t nbytes) const {
  return backend_->addresses().find(backend_->file(), static_cast<const std::byte*>(address), nbytes);
}
std::uint64_t MemoryFileView::epoch() const { return backend_->addresses().epoch(); }

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
