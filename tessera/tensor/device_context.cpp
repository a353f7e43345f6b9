#include "tessera/tensor/device_context.h"

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"

namespace tessera::tensor {
namespace {

// The known kinds. Never destroyed: operators register in static initializers and are used at exit.
struct Kinds {
  Kinds() {
    names.reserve(kMaxDeviceKinds);  // keeps addresses stable
    names.emplace_back("host");
  }
  std::mutex mutex;
  std::vector<std::string> names;
};
Kinds& kinds() {
  static auto* all = new Kinds();
  return *all;
}

// The contexts of one rank.
class RankDevices {
 public:
  const DeviceContext& of(const device::Device& device) {
    const std::lock_guard lock(mutex_);
    for (const auto& context : contexts_) {
      if (context->device.state() == device.state()) return *context;
    }
    const device::DeviceProperties& properties = device.properties();
    contexts_.push_back(
        std::make_unique<DeviceContext>(DeviceContext{device, memory::Allocator::of(device), own_stream(device),
                                                      device_kind(properties.kind), properties.has_values}));
    return *contexts_.back();
  }

 private:
  // Ranks that are threads share a GPU. Kernels of collectives wait for those of other ranks, so each rank needs a
  // stream.
  static device::Stream own_stream(const device::Device& device) {
    const RankPlace& place = current_place();
    const bool is_shared = place.local_world_size > 1 && device.properties().has_values && device != host_device();
    return is_shared ? device.create_stream({.name = "the default stream of rank " + to_string(place.rank)})
                     : device.default_stream();
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceContext>> contexts_;
};

// Cached device of a thread; valid while the thread belongs to the same rank.
struct Remembered {
  const device::DeviceState* device = nullptr;
  std::uint64_t rank_changes = 0;
  const DeviceContext* context = nullptr;
  const device::Stream* stream = nullptr;
};
using AllRemembered = std::array<Remembered, 4>;
constinit AllRemembered nothing_remembered = {};  // never written
constinit thread_local AllRemembered* remembered = &nothing_remembered;

// Returns the cache of this thread, on the heap: thread-local storage is scarce if dlopen loads this library.
AllRemembered& own_remembered() {
  struct Owner {
    Owner() { remembered = entries.get(); }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() { remembered = &nothing_remembered; }
    std::unique_ptr<AllRemembered> entries = std::make_unique<AllRemembered>();
  };
  thread_local const Owner kOwner;
  return *remembered;
}

constinit thread_local StreamScope* innermost = nullptr;
constinit thread_local DeviceScope* innermost_device = nullptr;

}  // namespace

// Finds current streams and clears cached ones.
struct CurrentStreams {
  static const device::Stream* innermost_on(const device::DeviceState* device) {
    for (const StreamScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
      if (scope->device_ == device) return &scope->stream_;
    }
    return nullptr;
  }
  static void forget(const device::DeviceState* device) {
    for (Remembered& entry : *remembered) {
      if (entry.device == device) entry.device = nullptr;
    }
  }
};

DeviceKind device_kind(std::string_view name) {
  Kinds& all = kinds();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    if (all.names[i] == name) return static_cast<DeviceKind>(i);
  }
  TESSERA_CHECK(all.names.size() < kMaxDeviceKinds, "device kind '", name, "': at most ", kMaxDeviceKinds,
                " kinds are supported; raise kMaxDeviceKinds");
  all.names.emplace_back(name);
  return static_cast<DeviceKind>(all.names.size() - 1);
}

std::string_view device_kind_name(DeviceKind kind) {
  Kinds& all = kinds();
  const std::lock_guard lock(all.mutex);
  TESSERA_CHECK(kind < all.names.size(), "device_kind_name: kind must be below ", all.names.size(), ", got ",
                int{kind});
  return all.names[kind];
}

CurrentDevice current_device(const device::Device& device) {
  const device::DeviceState* state = device.state().get();
  TESSERA_CHECK(
      state != nullptr,
      "current_device: device must not be empty; get one with Device::get");  // first: cleared entries are null too
  for (const Remembered& entry : *remembered) {
    if (entry.device == state && entry.rank_changes == tessera::detail::rank_changes) {
      return {entry.context, entry.stream};
    }
  }
  RankDevices& devices = current_rank()->part<RankDevices>([] { return std::make_shared<RankDevices>(); });
  const DeviceContext& context = devices.of(device);
  const device::Stream* stream = CurrentStreams::innermost_on(state);
  if (stream == nullptr) stream = &context.default_stream;
  CurrentStreams::forget(state);
  AllRemembered& entries = own_remembered();
  if (&entries == &nothing_remembered) return {&context, stream};  // the thread has ended
  for (std::size_t i = entries.size() - 1; i > 0; --i) entries[i] = entries[i - 1];
  entries[0] = {state, tessera::detail::rank_changes, &context, stream};
  return {&context, stream};
}

const device::Stream& current_stream(const device::Device& device) { return *current_device(device).stream; }

device::Device meta_device() { return device::Device::get("meta"); }

StreamScope::StreamScope(device::Stream stream)
    : stream_(std::move(stream)), device_(stream_.device().state().get()), outer_(innermost) {
  innermost = this;
  CurrentStreams::forget(device_);
}

StreamScope::~StreamScope() {
  innermost = outer_;
  CurrentStreams::forget(device_);
}

DeviceScope::DeviceScope(device::Device device) : device_(std::move(device)), outer_(innermost_device) {
  TESSERA_CHECK(device_, "DeviceScope: device must not be empty; get one with Device::get");
  innermost_device = this;
}

DeviceScope::~DeviceScope() { innermost_device = outer_; }

device::Device default_device() { return innermost_device != nullptr ? innermost_device->device_ : host_device(); }

device::Device host_device() { return device::Device::get("host"); }

}  // namespace tessera::tensor
