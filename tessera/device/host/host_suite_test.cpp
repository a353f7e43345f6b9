// The device suite on the host: inline, threaded, and seeded under several seeds.
#include <map>
#include <optional>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::host {
namespace {

using suite::DeviceImplementation;
using suite::DeviceSubject;
using suite::Traits;

template <class T>
T argument(void* const* args, int index) {
  return *static_cast<T*>(args[index]);
}

void fill_ints(const LaunchConfig&, void* const* args) {
  std::fill_n(argument<int*>(args, 0), argument<int>(args, 1), argument<int>(args, 2));
}

void add_ints(const LaunchConfig&, void* const* args) {
  int* to = argument<int*>(args, 0);
  for (int i = 0; i < argument<int>(args, 1); ++i) to[i] += argument<int>(args, 2);
}

void copy_ints(const LaunchConfig&, void* const* args) {
  std::copy_n(argument<const int*>(args, 1), argument<int>(args, 2), argument<int*>(args, 0));
}

void slow_add_ints(const LaunchConfig& config, void* const* args) {
  const std::chrono::nanoseconds busy(argument<std::uint64_t>(args, 3));
  const auto end = std::chrono::steady_clock::now() + busy;
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  add_ints(config, args);
}

// Each thread of the grid writes its own number, from 1.
void mark_grid(const LaunchConfig& config, void* const* args) {
  int count = 1;
  for (int i = 0; i < 3; ++i) count *= static_cast<int>(config.grid[i] * config.block[i]);
  for (int i = 0; i < count; ++i) argument<int*>(args, 0)[i] = i + 1;
}

void spin_until(const LaunchConfig&, void* const* args) {
  auto* word = const_cast<std::uint64_t*>(argument<const std::uint64_t*>(args, 0));
  while (std::atomic_ref(*word).load() < argument<std::uint64_t>(args, 1)) std::this_thread::yield();
}

void fail(const LaunchConfig&, void* const*) { TESSERA_THROW(DeviceError, "this kernel fails on purpose"); }

const std::map<std::string, HostKernelFn> kKernels = {
    {"fill_ints", &fill_ints}, {"add_ints", &add_ints},
    {"copy_ints", &copy_ints}, {"slow_add_ints", &slow_add_ints},
    {"mark_grid", &mark_grid}, {"spin_until", &spin_until},
    {"fail", &fail},
};

class HostSubject : public DeviceSubject {
 public:
  explicit HostSubject(HostOptions options) : options_(std::move(options)) {
    if (options_.mode == Mode::kSeeded) {
      options_.scheduler = SeededScheduler::create(options_.seed);
      participant_.emplace(options_.scheduler, "test");
    }
    device_ = make_host_device(options_);
  }

  Device device() override { return device_; }
  Device peer() override {
    HostOptions options = options_;
    options.name = "peer";
    return make_host_device(options);
  }
  Device limited_device(std::size_t nbytes) override {
    HostOptions options = options_;
    options.capacity_nbytes = nbytes;
    return make_host_device(options);
  }
  Device checked_device() override {
    HostOptions options = options_;
    options.checked = true;
    return make_host_device(options);
  }
  Stream first_stream() override {
    return options_.mode == Mode::kInline ? device_.default_stream() : DeviceSubject::first_stream();
  }
  Kernel kernel(const std::string& name) override { return device_.host_kernel(name, kKernels.at(name)); }

  void launch_unseen(void* native_stream, std::function<void()> body) override {
    host::launch_unseen(native_stream, std::move(body));
  }
  // Objects that the backend creates without the common layer, which keeps the clocks, are foreign.
  void* foreign_stream() override {
    foreign_streams_.push_back(device_.state()->backend->create_stream({.name = "made elsewhere"}, false));
    return foreign_streams_.back()->native();
  }
  void* foreign_event() override {
    foreign_events_.push_back(device_.state()->backend->create_event({}));
    return foreign_events_.back()->native();
  }
  void record_unseen(void* native_event, void* native_stream) override {
    for (const auto& stream : foreign_streams_) {
      if (stream->native() != native_stream) continue;
      for (const auto& event : foreign_events_) {
        if (event->native() == native_event) return stream->record(event, Tick{}, EventUse::kEdge);
      }
    }
    throw std::runtime_error("not a foreign stream and event");
  }

  void run_together(std::vector<std::function<void()>> bodies) override {
    if (options_.scheduler == nullptr) return DeviceSubject::run_together(std::move(bodies));
    std::vector<std::uint64_t> threads;
    for (auto& body : bodies) threads.push_back(options_.scheduler->spawn("thread", std::move(body)));
    for (const std::uint64_t thread : threads) options_.scheduler->join(thread);
  }
  Traits traits() const override { return {.has_real_time = options_.mode != Mode::kSeeded}; }

 private:
  HostOptions options_;
  std::optional<SeededScheduler::Participant> participant_;
  Device device_;
  std::vector<std::unique_ptr<StreamBackend>> foreign_streams_;
  std::vector<std::shared_ptr<EventBackend>> foreign_events_;
};

DeviceImplementation host(const std::string& name, const HostOptions& options) {
  return {name, [options](std::string&) { return std::make_unique<HostSubject>(options); }};
}

}  // namespace
}  // namespace tessera::device::host

namespace tessera::device::suite {

INSTANTIATE_TEST_SUITE_P(Host, DeviceSuite,
                         ::testing::Values(host::host("inline", {.mode = host::Mode::kInline}),
                                           host::host("threaded", {.mode = host::Mode::kThreaded}),
                                           host::host("seed1", {.mode = host::Mode::kSeeded, .seed = 1}),
                                           host::host("seed2", {.mode = host::Mode::kSeeded, .seed = 2}),
                                           host::host("seed3", {.mode = host::Mode::kSeeded, .seed = 3})),
                         implementation_name);

}  // namespace tessera::device::suite
