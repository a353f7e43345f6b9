// The memory suite on the host: inline, threaded, and seeded under two seeds.
#include <optional>

#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"
#include "tessera/memory/suite/memory_suite.h"

namespace tessera::memory::suite {
namespace {

using device::host::HostOptions;
using device::host::Mode;
using device::host::SeededScheduler;

class HostSubject : public MemorySubject {
 public:
  explicit HostSubject(HostOptions options) : options_(std::move(options)) {
    options_.capacity_nbytes = std::size_t{4} << 30;
    if (options_.mode == Mode::kSeeded) {
      options_.scheduler = SeededScheduler::create(options_.seed);
      participant_.emplace(options_.scheduler, "test");
    }
    device_ = device::host::make_host_device(options_);
  }
  Device device() override { return device_; }
  Device limited(std::size_t nbytes) override {
    HostOptions options = options_;
    options.capacity_nbytes = nbytes;
    return device::host::make_host_device(options);
  }
  Device checked() override {
    HostOptions options = options_;
    options.checked = true;
    return device::host::make_host_device(options);
  }
  void run_together(std::vector<std::function<void()>> bodies) override {
    if (options_.scheduler == nullptr) return MemorySubject::run_together(std::move(bodies));
    std::vector<std::uint64_t> threads;
    for (auto& body : bodies) threads.push_back(options_.scheduler->spawn("thread", std::move(body)));
    for (const std::uint64_t thread : threads) options_.scheduler->join(thread);
  }

 private:
  HostOptions options_;
  std::optional<SeededScheduler::Participant> participant_;
  Device device_;
};

MemoryImplementation host(const std::string& name, const HostOptions& options) {
  return {name, [options](std::string&) { return std::make_unique<HostSubject>(options); }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Host, MemorySuite,
                         ::testing::Values(host("inline", {.mode = Mode::kInline}),
                                           host("threaded", {.mode = Mode::kThreaded}),
                                           host("seed1", {.mode = Mode::kSeeded, .seed = 1}),
                                           host("seed2", {.mode = Mode::kSeeded, .seed = 2})),
                         implementation_name);

}  // namespace tessera::memory::suite
