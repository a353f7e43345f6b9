#include "tessera/device/device.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/device/backend.h"
#include "tessera/device/detail/state.h"

namespace tessera::device {
namespace {

DeviceState& state_of(const Device& device) {
  TESSERA_CHECK(device.state() != nullptr, "Device must not be empty; get one with Device::get(\"host\")");
  device.state()->owner.check("device");
  return *device.state();
}

// Devices whose last handle their own work released. A worker cannot wait for itself, so a separate thread destroys
// each. At its end, the process waits a moment for these threads.
class Endings {
 public:
  static Endings& get() {
    static constinit PerProcess<Endings> one;
    static const int kAtExit = std::atexit([] {
      if (Endings* own = one.find()) own->wait();
    });
    (void)kAtExit;
    return one.get();
  }
  void end(DeviceState* device) {
    {
      const std::lock_guard lock(mutex_);
      ++under_way_;
    }
    std::thread([this, device] {
      delete device;
      const std::lock_guard lock(mutex_);
      if (--under_way_ == 0) none_.notify_all();
    }).detach();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait_for(lock, std::chrono::seconds(1), [&] { return under_way_ == 0; });
  }

  std::mutex mutex_;
  std::condition_variable none_;
  int under_way_ = 0;
};

}  // namespace

void StreamBackend::launch_native(const std::function<void(void* native)>&, const LaunchInfo& info, bool) {
  TESSERA_THROW(NotSupported, "launch_native of '", info.label,
                "': this device does not support launches by libraries");
}
void StreamBackend::set_delay(std::chrono::nanoseconds) {
  TESSERA_THROW(NotSupported, "delay_stream: only streams of the host device can be delayed");
}
void StreamBackend::set_stalled(bool) {
  TESSERA_THROW(NotSupported, "stall_stream: only streams of the host device can be stalled");
}
std::shared_ptr<KernelBackend> DeviceBackend::host_kernel(HostKernelFn) {
  TESSERA_THROW(NotSupported, "host_kernel: only the host device launches functions; load an image with load_module");
}

Device make_device(std::unique_ptr<DeviceBackend> backend, std::string name, DeviceOptions options) {
  const std::shared_ptr<DeviceState> state(new DeviceState, [](DeviceState* last) {
    if (!last->owner.is_this()) return;  // its threads and its memory belong to the parent process
    if (is_device_worker) {
      Endings::get().end(last);
    } else {
      delete last;
    }
  });
  state->name = std::move(name);
  state->properties = backend->properties();
  if (options.checked) state->checker = std::make_unique<detail::AccessChecker>();
  state->backend = std::move(backend);
  state->default_stream = state->add_stream(state->backend->create_stream({.name = "default stream"}, true),
                                            {.name = "default stream"}, true, false);
  return Device(state);
}

DeviceState::~DeviceState() {
  default_stream.reset();
  for (Retiring& one : retiring) {
    try {
      if (properties.kind == "host") one.backend->set_stalled(false);
      one.backend->synchronize(kForever);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a lost device has nothing left to wait for
    }
  }
  retiring.clear();
  captures.clear();
}

std::shared_ptr<StreamState> DeviceState::add_stream(std::unique_ptr<StreamBackend> stream, StreamOptions options,
                                                     bool is_default, bool is_wrapped) {
  reap();
  auto state = std::make_shared<StreamState>();
  state->device = this;
  if (!is_default) state->keep_device = shared_from_this();
  state->backend = std::move(stream);
  state->is_foreign = is_wrapped;
  state->may_spin = options.may_spin;
  const std::lock_guard lock(mutex);
  state->name = options.name.empty() ? "stream " + std::to_string(streams_made) : std::move(options.name);
  ++streams_made;
  if (free_slots.empty()) {
    slots.emplace_back();
    slots.back().place(StreamId(static_cast<std::uint32_t>(slots.size() - 1)), this);
    state->slot = &slots.back();
  } else {
    state->slot = free_slots.back();
    free_slots.pop_back();
  }
  state->slot->occupy(is_wrapped);
  state->slot->owner = state;
  state->clock.raise(state->slot->id(), state->slot->tick());
  streams[state->backend->native()] = state;
  return state;
}

std::shared_ptr<EventState> DeviceState::add_event(std::shared_ptr<EventBackend> event, bool timing, bool is_wrapped) {
  auto state = std::make_shared<EventState>();
  state->device = shared_from_this();
  state->backend = std::move(event);
  state->native = state->backend->native();
  state->timing = timing;
  state->is_wrapped = is_wrapped;
  const std::lock_guard lock(mutex);
  events[state->native] = state;
  return state;
}

StreamState::~StreamState() {
  if (slot == nullptr) return;
  if (!owner.is_this()) {
    abandon(backend);
    return;
  }
  device->retire(std::move(backend), slot);
}

EventState::~EventState() {
  if (!device->owner.is_this()) {
    abandon(backend);
    return;
  }
  const std::lock_guard lock(device->mutex);
  const auto it = device->events.find(native);
  if (it != device->events.end() && it->second.expired()) device->events.erase(it);
}

void DeviceState::retire(std::unique_ptr<StreamBackend> stream, ClockSlot* slot) {
  {
    const std::lock_guard lock(mutex);
    const auto it = streams.find(stream->native());
    if (it != streams.end() && it->second.expired()) streams.erase(it);
    slot->vacate();
    retiring.push_back({std::move(stream), slot});
  }
  reap();
}

void DeviceState::reap() {
  std::vector<Retiring> asked;
  {
    const std::lock_guard lock(mutex);
    asked = retiring;
  }
  for (Retiring& one : asked) {
    bool is_idle = false;
    try {
      is_idle = one.backend->is_idle();
    } catch (...) {  // NOLINT(bugprone-empty-catch): a lost stream stays until the device goes
    }
    if (!is_idle) continue;
    const std::lock_guard lock(mutex);
    // Another thread may have found it at the same time; the one that removes it from the list frees its slot.
    if (std::erase_if(retiring, [&](const Retiring& other) { return other.backend == one.backend; }) == 0) continue;
    one.slot->raise_completed(one.slot->tick());
    free_slots.push_back(one.slot);
  }
}

std::shared_ptr<CaptureState> DeviceState::find_capture(CaptureId id) {
  const std::lock_guard lock(mutex);
  const auto it = captures.find(id);
  return it == captures.end() ? nullptr : it->second;
}

const std::string& Device::name() const { return state_of(*this).name; }
const DeviceProperties& Device::properties() const { return state_of(*this).properties; }

MemoryUse Device::memory_use() const {
  DeviceState& state = state_of(*this);
  MemoryUse use = state.backend->memory_use();
  use.own_nbytes = state.own_nbytes;
  if (use.process_nbytes) use.process_nbytes = std::max(*use.process_nbytes, use.own_nbytes);
  return use;
}

Stream Device::default_stream() const {
  // An alias that keeps the device alive, which owns its default stream.
  return Stream(std::shared_ptr<StreamState>(state_, state_of(*this).default_stream.get()));
}

Stream Device::create_stream(StreamOptions options) const {
  DeviceState& state = state_of(*this);
  state.faults.pass(DriverCall::kCreateStream);
  auto backend = state.backend->create_stream(options, false);
  return Stream(state.add_stream(std::move(backend), std::move(options), false, false));
}

Event Device::create_event(EventOptions options) const {
  DeviceState& state = state_of(*this);
  state.faults.pass(DriverCall::kCreateEvent);
  return Event(state.add_event(state.backend->create_event(options), options.timing, false));
}

namespace {

// Returns the stream in a slot, or null if it was destroyed.
std::shared_ptr<StreamState> stream_in(DeviceState& state, StreamId id) {
  const std::lock_guard lock(state.mutex);
  TESSERA_CHECK(id.value() < state.slots.size(), "device ", state.name, " has no stream with id ", id);
  return state.slots[id.value()].owner.lock();
}

}  // namespace

Tick Device::completed(StreamId stream) const {
  DeviceState& state = state_of(*this);
  state.reap();
  const auto alive = stream_in(state, stream);
  if (alive != nullptr) return Stream(alive).completed();
  const std::lock_guard lock(state.mutex);
  return state.slots[stream.value()].completed();
}

Tick Device::poll(StreamId stream) const {
  DeviceState& state = state_of(*this);
  if (const auto alive = stream_in(state, stream)) return Stream(alive).poll();
  return completed(stream);
}

const StreamSlot& Device::slot(StreamId id) const {
  DeviceState& state = state_of(*this);
  const std::lock_guard lock(state.mutex);
  TESSERA_CHECK(id.value() < state.slots.size(), "device ", state.name, " has no stream with id ", id);
  return state.slots[id.value()];
}

Stream Device::stream(StreamId id) const {
  auto stream = stream_in(state_of(*this), id);
  // Only the default stream does not keep its device alive.
  return stream == state_->default_stream ? default_stream() : Stream(std::move(stream));
}

std::size_t Device::captures() const {
  DeviceState& state = state_of(*this);
  const std::lock_guard lock(state.mutex);
  return state.captures.size();
}

void Device::synchronize(std::chrono::nanoseconds timeout) const {
  DeviceState& state = state_of(*this);
  std::vector<std::shared_ptr<StreamState>> live;
  std::vector<std::shared_ptr<StreamBackend>> retiring;
  {
    const std::lock_guard lock(state.mutex);
    for (const auto& one : state.retiring) retiring.push_back(one.backend);
    for (const auto& [native, stream] : state.streams) {
      if (auto alive = stream.lock()) live.push_back(std::move(alive));
    }
  }
  // In slot order, so that with several parked errors always the same one is thrown.
  std::ranges::sort(live, {}, [](const auto& stream) { return stream->id(); });
  for (const auto& stream : live) Stream(stream).synchronize(timeout);
  for (const auto& stream : retiring) {
    TESSERA_CHECK_AS(TimeoutError, stream->synchronize(timeout), "device ", state.name,
                     ": a stream without a handle still has work after ", timeout, "; the work continues");
  }
  retiring.clear();
  state.reap();
}

void Device::set_wait_check(WaitCheck check) const {
  state_of(*this).wait_check.store(check, std::memory_order_release);
}

bool Device::can_share_with(const Device& peer) const {
  DeviceState& state = state_of(*this);
  DeviceState& other = state_of(peer);
  return state.properties.kind == other.properties.kind && state.backend->can_share_with(*other.backend);
}

bool Device::is_capturable(const void* address) const { return state_of(*this).backend->is_capturable(address); }

Module Device::load_module(std::span<const std::byte> image) const {
  DeviceState& state = state_of(*this);
  TESSERA_CHECK(!image.empty(), "load_module: image must not be empty");
  state.faults.pass(DriverCall::kLoadModule);
  return {state_, state.backend->load_module(image)};
}

Kernel Device::host_kernel(std::string name, HostKernelFn function) const {
  TESSERA_CHECK(function != nullptr, "host_kernel '", name, "': function must not be null");
  return {state_, state_of(*this).backend->host_kernel(function), std::move(name)};
}

Kernel Module::kernel(const std::string& name) const {
  TESSERA_CHECK(backend_ != nullptr, "kernel '", name,
                "': Module must not be empty; load one with Device::load_module");
  device_->owner.check("module");
  auto kernel = backend_->kernel(name);
  TESSERA_CHECK(kernel != nullptr, "the module has no kernel '", name, "'; declare it extern \"C\"");
  return {device_, std::move(kernel), name};
}

Kernel::Kernel(std::shared_ptr<DeviceState> device, std::shared_ptr<KernelBackend> backend, std::string name)
    : device_(std::move(device)), backend_(std::move(backend)), name_(std::move(name)) {}

FaultInjector& Device::faults() const { return state_of(*this).faults; }

void Device::delay_stream(const Stream& stream, std::chrono::nanoseconds delay) const {
  TESSERA_CHECK(stream && stream.device() == *this, "delay_stream: the stream must be of this device");
  stream.state()->backend->set_delay(delay);
}

void Device::stall_stream(const Stream& stream, bool stalled) const {
  TESSERA_CHECK(stream && stream.device() == *this, "stall_stream: the stream must be of this device");
  stream.state()->backend->set_stalled(stalled);
}

bool Device::is_checked() const { return state_of(*this).checker != nullptr; }

void Device::note_freed(const void* address, std::size_t nbytes, std::string_view by) const {
  DeviceState& state = state_of(*this);
  if (state.checker != nullptr) state.checker->forbid(address, nbytes, by);
}

void Device::note_allocated(const void* address, std::size_t nbytes) const {
  DeviceState& state = state_of(*this);
  if (state.checker != nullptr) state.checker->allow(address, nbytes);
}

}  // namespace tessera::device
