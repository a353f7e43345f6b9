#include "tessera/memory/suite/memory_suite.h"

#include <algorithm>
#include <thread>

namespace tessera::memory::suite {

using namespace std::chrono_literals;

void MemorySubject::run_together(std::vector<std::function<void()>> bodies) {
  std::vector<std::thread> threads;
  threads.reserve(bodies.size());
  for (auto& body : bodies) threads.emplace_back(std::move(body));
  for (auto& thread : threads) thread.join();
}

void MemorySuite::SetUp() {
  std::string why;
  subject = GetParam().open(why);
  if (subject == nullptr) GTEST_SKIP() << why;
  device = subject->device();
  use_policy({});
  stream = device.create_stream({.name = "first"});
  other = device.create_stream({.name = "second"});
}

void MemorySuite::TearDown() {
  for (const device::Hold& hold : holds_) hold.release();
  if (device) {
    try {
      device.synchronize(60s);
    } catch (const std::exception& error) {
      if (!HasFailure()) ADD_FAILURE() << "at the end of the case: " << error.what();
    }
  }
  if (allocator && !IsSkipped()) {
    EXPECT_TRUE(closes());
  }
}

void MemorySuite::use_policy(const Policy& policy, const Device& on) {
  if (on) device = on;
  allocator = Allocator(device, {.policy = policy});
}

bool MemorySuite::use_limited(std::size_t nbytes, const Policy& policy) {
  const Device limited = subject->limited(nbytes);
  if (!limited) return false;
  use_policy(policy, limited);
  stream = device.create_stream({.name = "first"});
  other = device.create_stream({.name = "second"});
  return true;
}

device::Hold MemorySuite::hold(const Stream& on) {
  holds_.push_back(on.hold(60s));
  return holds_.back();
}

void MemorySuite::join(const Stream& waiter, const Stream& on) const {
  const Event event = device.create_event();
  on.record(event);
  waiter.wait(event);
}

void MemorySuite::fill(const Stream& on, const Buffer& buffer, std::uint8_t value) {
  on.fill(buffer.data(), value, 1, buffer.nbytes());
}

std::vector<std::uint8_t> MemorySuite::read(const Buffer& buffer) const {
  device.synchronize(60s);
  const device::PinnedMemory staging = device.allocate_pinned(std::max<std::size_t>(buffer.nbytes(), 1));
  const Stream reader = device.create_stream({.name = "reader"});
  reader.copy(staging.data(), buffer.data(), buffer.nbytes());
  reader.synchronize(60s);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(staging.data());
  return {bytes, bytes + buffer.nbytes()};
}

testing::AssertionResult MemorySuite::holds(const Buffer& buffer, std::uint8_t value) const {
  const std::vector<std::uint8_t> bytes = read(buffer);
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [&](std::uint8_t one) { return one != value; });
  if (wrong == bytes.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "byte " << wrong - bytes.begin() << " is " << int{*wrong} << ", not "
                                     << int{value};
}

testing::AssertionResult MemorySuite::closes() const {
  const Snapshot snapshot = allocator.snapshot();
  const Totals walked = snapshot.totals();
  const Totals counted = allocator.statistics().now;
  if (const std::string problem = snapshot.inconsistency(); !problem.empty())
    return testing::AssertionFailure() << problem;
  if (!walked.closes())
    return testing::AssertionFailure() << "reserved " << walked.reserved_nbytes << " != live " << walked.live_nbytes
                                       << " + rounding " << walked.rounding_nbytes << " + pending "
                                       << walked.pending_nbytes << " + cached " << walked.cached_nbytes;
  const auto same = [](std::uint64_t a, std::uint64_t b) { return a == b; };
  if (!same(walked.reserved_nbytes, counted.reserved_nbytes) || !same(walked.live_nbytes, counted.live_nbytes) ||
      !same(walked.rounding_nbytes, counted.rounding_nbytes) || !same(walked.pending_nbytes, counted.pending_nbytes) ||
      !same(walked.cached_nbytes, counted.cached_nbytes) || !same(walked.live_blocks, counted.live_blocks))
    return testing::AssertionFailure() << "counted and walked sums differ: reserved " << counted.reserved_nbytes << "/"
                                       << walked.reserved_nbytes << ", live " << counted.live_nbytes << "/"
                                       << walked.live_nbytes << ", pending " << counted.pending_nbytes << "/"
                                       << walked.pending_nbytes << ", cached " << counted.cached_nbytes << "/"
                                       << walked.cached_nbytes;
  return testing::AssertionSuccess();
}

}  // namespace tessera::memory::suite
