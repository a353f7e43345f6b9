// Stream::try_run: an idle inline stream runs work immediately, without owning it.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

using std::chrono::hours;

Device make(Mode mode) { return make_host_device({.mode = mode}); }

TEST(TryRun, RunsOnTheCallerAsRunDoes) {
  const Stream stream = make(Mode::kInline).default_stream();
  std::vector<int> order;
  const auto kept = std::make_shared<int>(0);
  HostFunction body([&order, &stream, kept] {
    stream.run([&order] { order.push_back(2); });
    EXPECT_FALSE(stream.query());
    order.push_back(1);
  });
  EXPECT_TRUE(stream.try_run(body));
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_TRUE(stream.query());
}

TEST(TryRun, ParksAnErrorAndRunsNothingBehindIt) {
  const Stream stream = make(Mode::kInline).default_stream();
  bool ran = false;
  HostFunction broken([] { throw std::runtime_error("broken"); });
  EXPECT_TRUE(stream.try_run(broken));
  HostFunction next([&] { ran = true; });
  EXPECT_FALSE(stream.try_run(next));
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  stream.reset_error();
  EXPECT_TRUE(stream.try_run(next));
  stream.synchronize();
  EXPECT_TRUE(ran);
}

TEST(TryRun, LeavesToTheQueueWhatTheCallerCannotRunNow) {
  const Device device = make(Mode::kInline);
  const Stream stream = device.default_stream();
  int count = 0;
  HostFunction body([&] { ++count; });
  EXPECT_FALSE(device.create_stream().try_run(body)) << "another thread runs it";
  EXPECT_FALSE(make_host_device({.checked = true}).default_stream().try_run(body)) << "it declares nothing";
  stream.begin_capture();
  EXPECT_FALSE(stream.try_run(body));
  (void)stream.end_capture();
  device.faults().count_calls(true);
  EXPECT_FALSE(stream.try_run(body)) << "run() passes it by the faults, once";
  EXPECT_EQ(device.faults().calls(DriverCall::kLaunch), 0U);
  device.faults().count_calls(false);
  const Hold hold = stream.hold(hours(1));
  EXPECT_FALSE(stream.try_run(body)) << "work is before it";
  hold.release();
  stream.synchronize();
  EXPECT_EQ(count, 0);
  while (!stream.try_run(body)) stream.synchronize();  // until the worker releases the empty queue
  EXPECT_EQ(count, 1);
}

TEST(TryRun, WorkOfOtherThreadsWaitsForItsEnd) {
  const Stream stream = make(Mode::kInline).default_stream();
  std::vector<int> order;
  HostFunction body([&] {
    {
      const Thread other("other", [&] { stream.run([&] { order.push_back(2); }); });
    }
    order.push_back(1);
  });
  EXPECT_TRUE(stream.try_run(body));
  EXPECT_EQ(order, (std::vector{1, 2}));
}

}  // namespace
}  // namespace tessera::device::host
