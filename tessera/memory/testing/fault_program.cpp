#include "tessera/memory/testing/fault_program.h"

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"
#include "tessera/memory/device_upstream.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/testing/decorators.h"

namespace tessera::memory::testing {

using device::DriverCall;
using device::host::SeededScheduler;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

void join(const device::Device& device, const Stream& waiter, const Stream& stream) {
  const Event event = device.create_event();
  stream.record(event);
  waiter.wait(event);
}

// Buffers on two streams: lent, waited for, moved.
void use_streams(const FaultGround& ground, const Stream& one, const Stream& two) {
  Buffer a = ground.memory.allocate(3 * kMiB, one);
  Buffer b = ground.memory.allocate(100 * kKiB, one);
  one.fill(a.data(), 1, 1, 64);
  join(ground.device, two, one);
  a.use_on(two);
  two.fill(a.data(), 2, 1, 64);
  a.reset();
  a = ground.memory.allocate(3 * kMiB, one);  // after a wait
  b.reset();
  join(ground.device, two, one);
  b = ground.memory.allocate(100 * kKiB, two);  // lent
  a.reset();
  one.synchronize(60s);
  two.synchronize(60s);
  a = ground.memory.allocate(5 * kMiB, two);  // moved
  two.fill(a.data(), 3, 1, 64);
  ground.memory.trim();
}

void use_pools(const FaultGround& ground, const Stream& one) {
  const Pool whole = ground.memory.create_pool({.no_split = true});
  const Pool pool = ground.memory.create_pool({.borrow_on_oom = true});
  const PoolScope scope(pool);
  Buffer a = ground.memory.allocate(kMiB, one);
  {
    const PoolScope inner(whole);
    const Buffer b = ground.memory.allocate(200 * kKiB, one);
  }
  const PoolLayout layout = pool.checkpoint();
  a.reset();
  const std::vector<Buffer> restored = pool.restore(layout);
  whole.trim();
}

void use_graphs(const FaultGround& ground, const Stream& one, const Stream& two) {
  const Pool pool = ground.memory.create_pool({});
  const Buffer outside = ground.memory.allocate(kKiB, one);
  const auto body = [&] {
    Buffer a = ground.memory.allocate(kMiB, one);
    one.fill(a.data(), 1, 1, 64);
    join(ground.device, two, one);
    Buffer b = ground.memory.allocate(kMiB, two);
    two.copy(b.data(), a.data(), 64);
    join(ground.device, one, two);
    a.reset();
    a = ground.memory.allocate(kMiB, one);  // proven
    outside.use_on(one);
    one.copy(outside.data(), b.data(), 64);
    return a;
  };
  static_cast<void>(estimate(pool, one, [&] { static_cast<void>(body()); }));
  Buffer made;
  CapturedGraph first;
  {
    GraphCapture capture(pool, one, "first");
    made = body();
    first = capture.end();
  }
  first.replay(one);
  made.use_on(two);
  join(ground.device, two, one);
  two.fill(made.data(), 9, 1, 64);
  made.reset();
  GraphCapture capture(pool, one, "second");
  const Buffer again = body();
  const CapturedGraph second = capture.end();
  second.replay(one);
  first = {};
  one.synchronize(60s);
  pool.trim();
}

void use_pinned(const FaultGround& ground, const Stream& one) {
  const Buffer target = ground.memory.allocate(4 * kKiB, one);
  for (int i = 0; i < 3; ++i) {
    const Buffer staging = ground.pinned.allocate(4 * kKiB, one);
    std::memset(staging.data(), i, 4 * kKiB);
    one.copy(target.data(), staging.data(), 4 * kKiB);
  }
  one.synchronize(60s);
  ground.pinned.trim();
}

std::string problem_of(const Allocator& allocator, const char* when) {
  const Snapshot snapshot = allocator.snapshot();
  if (const std::string problem = snapshot.inconsistency(); !problem.empty()) return when + (": " + problem);
  if (!snapshot.totals().closes()) return std::string(when) + ": the identity does not close";
  if (!(snapshot.totals() == allocator.statistics().now)) return std::string(when) + ": counted and walked sums differ";
  return {};
}

std::string look_at(const FaultGround& ground) {
  for (const Allocator& allocator : {ground.memory, ground.pinned}) {
    if (std::string problem = problem_of(allocator, "after the fault"); !problem.empty()) return problem;
    if (allocator.statistics().now.live_blocks != 0) return "blocks are live that nobody holds";
  }
  const Stream stream = ground.device.create_stream();
  {
    const Buffer buffer = ground.memory.allocate(kMiB, stream);
    stream.fill(buffer.data(), 7, 1, kMiB);
    ground.device.synchronize(60s);
    if (buffer.data()[kMiB - 1] != std::byte{7}) return "a new buffer does not hold what was written";
  }
  ground.device.synchronize(60s);
  for (const Allocator& allocator : {ground.memory, ground.pinned}) {
    allocator.trim();
    const std::uint64_t left = allocator.statistics().now.reserved_nbytes;
    if (left != 0) return std::to_string(left) + " bytes are left of " + allocator.name();
    if (allocator.snapshot().pools.size() != 1) return "a pool that nobody holds is still there";
  }
  if (ground.device.captures() != 0) return "a capture is still under way";
  return {};
}

}  // namespace

void run_fault_program(const FaultGround& ground) {
  const Stream one = ground.device.create_stream();
  const Stream two = ground.device.create_stream();
  use_streams(ground, one, two);
  use_pools(ground, one);
  use_graphs(ground, one, two);
  use_pinned(ground, one);
}

std::string check_fault(const Policy& policy, const std::function<void(const FaultGround&)>& arm,
                        const std::function<void(const FaultGround&)>& disarm,
                        const std::function<std::shared_ptr<Upstream>(std::shared_ptr<Upstream>)>& wrap) {
  const auto scheduler = SeededScheduler::create(1);
  const SeededScheduler::Participant main(scheduler, "program");
  FaultGround ground;
  ground.device = device::host::make_host_device({.mode = device::host::Mode::kSeeded, .scheduler = scheduler});
  std::shared_ptr<Upstream> upstream = device_upstream(ground.device);
  if (wrap) upstream = wrap(std::move(upstream));
  ground.memory = Allocator(ground.device, {.policy = policy, .upstream = upstream});
  ground.pinned = Allocator(ground.device, {.upstream = pinned_upstream(ground.device), .host_writes = true});
  upstream.reset();
  arm(ground);
  std::string problem;
  try {
    run_fault_program(ground);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a clean end
  } catch (const std::exception& error) {
    problem = std::string("an error that is not ours: ") + error.what();
  }
  disarm(ground);
  try {
    if (problem.empty()) problem = look_at(ground);
    const device::Device device = ground.device;
    ground.memory = {};
    ground.pinned = {};
    if (problem.empty() && device.memory_use().own_nbytes != 0) problem = "memory of the device is left";
  } catch (const std::exception& error) {
    problem = std::string("afterwards: ") + error.what();
  }
  return problem;
}

std::string sweep_driver_faults(const Policy& policy, std::uint64_t every, std::uint64_t& count) {
  constexpr auto kKinds = static_cast<std::size_t>(DriverCall::kCount);
  std::array<std::uint64_t, kKinds> calls{};
  const std::string clean = check_fault(
      policy, [](const FaultGround& ground) { ground.device.faults().count_calls(true); },
      [&](const FaultGround& ground) {
        for (std::size_t i = 0; i < kKinds; ++i) calls[i] = ground.device.faults().calls(static_cast<DriverCall>(i));
        ground.device.faults().count_calls(false);
      });
  if (!clean.empty()) return "with no fault: " + clean;
  for (std::size_t i = 0; i < kKinds; ++i) {
    const auto call = static_cast<DriverCall>(i);
    for (std::uint64_t k = 1; k <= calls[i]; k += every) {
      for (const ErrorKind kind : {ErrorKind::kDevice, ErrorKind::kOutOfMemory}) {
        ++count;
        const std::string problem = check_fault(
            policy, [&](const FaultGround& ground) { ground.device.faults().fail(call, k, kind); },
            [](const FaultGround& ground) { ground.device.faults().clear(); });
        if (problem.empty()) continue;
        return "call " + std::to_string(k) + " of '" + std::string(to_string(call)) + "' failed with " +
               std::string(to_string(kind)) + ": " + problem;
      }
    }
  }
  return {};
}

std::string sweep_upstream_faults(const Policy& policy, std::uint64_t every, std::uint64_t& count) {
  std::shared_ptr<FailUpstream> upstream;
  const auto wrap = [&](std::shared_ptr<Upstream> inner) {
    upstream = std::make_shared<FailUpstream>(std::move(inner));
    return upstream;
  };
  const auto run = [&](std::uint64_t k, ErrorKind kind) {
    std::uint64_t calls = 0;
    std::string problem = check_fault(
        policy, [&](const FaultGround&) { upstream->fail_at(k, kind); },
        [&](const FaultGround&) {
          calls = upstream->calls();
          upstream->fail_at(0);
          upstream.reset();
        },
        wrap);
    return std::pair(calls, std::move(problem));
  };
  const auto [calls, clean] = run(0, ErrorKind::kDevice);
  if (!clean.empty()) return "with no fault: " + clean;
  for (std::uint64_t k = 1; k <= calls; k += every) {
    for (const ErrorKind kind : {ErrorKind::kDevice, ErrorKind::kOutOfMemory}) {
      ++count;
      const std::string problem = run(k, kind).second;
      if (!problem.empty())
        return "call " + std::to_string(k) + " of the upstream failed with " + std::string(to_string(kind)) + ": " +
               problem;
    }
  }
  return {};
}

}  // namespace tessera::memory::testing
