// Streams, threads and depth: gradients ordered across streams on a checked device under seeded schedules, threads that
// record and run concurrently, and a million calls on a small stack.
#include <gtest/gtest.h>
#include <pthread.h>

#include <latch>

#include "tessera/autograd/hooks.h"
#include "tessera/autograd/testing/test_ops.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"

namespace tessera::autograd::testing {
namespace {

using device::host::Mode;
using Values = std::vector<double>;

// y = x * c on one stream, z = exp(-y) * y on another, the loss on a third; events order the forward calls.
void run_over_streams(const device::Device& device) {
  const device::Stream first = device.create_stream({.name = "first"});
  const device::Stream second = device.create_stream({.name = "second"});
  const auto hand_over = [&](const device::Stream& from, const device::Stream& to) {
    const device::Event event = device.create_event();
    from.record(event);
    to.wait(event);
  };
  const Tensor x = leaf_of({1}, {0.5}, device);
  const Tensor w = leaf_of({1}, {3}, device);
  for (int round = 1; round <= 2; ++round) {
    hand_over(device.default_stream(), first);
    Tensor y;
    {
      const tensor::StreamScope scope(first);
      y = mul(x, w);
    }
    hand_over(first, second);
    Tensor z;
    {
      const tensor::StreamScope scope(second);
      z = mul(exp(neg(y)), y);
    }
    hand_over(first, device.default_stream());
    hand_over(second, device.default_stream());
    const Tensor loss = sum(add(z, y));
    std::vector<std::string> ran_on;
    on_gradient(y, [&](const Tensor& gradient) {
      ran_on.push_back(tensor::current_stream(gradient.device()).name());
      return Tensor();
    });
    on_gradient(z, [&](const Tensor& gradient) {
      ran_on.push_back(tensor::current_stream(gradient.device()).name());
      return Tensor();
    });
    backward(loss);
    EXPECT_EQ(ran_on, std::vector<std::string>({"second", "first"}));
    // Read by a call on the stream of the caller, which waits for the gradients.
    const Tensor both = mul(grad(x), grad(w));
    const double slope = 1 + std::exp(-1.5) * (1 - 1.5);
    EXPECT_NEAR(values_of(both)[0], round * round * 3 * 0.5 * slope * slope, 1e-12);
  }
}

TEST(Streams, GradientsAreOrderedOnACheckedDeviceUnderManySeeds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto scheduler = device::host::SeededScheduler::create(seed);
    const device::host::SeededScheduler::Participant participant(scheduler, "test");
    const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys the device with it
    run_over_streams(device::host::make_host_device({.mode = Mode::kSeeded, .scheduler = scheduler, .checked = true}));
    if (HasFailure()) return;
  }
}

TEST(Streams, GradientsAreOrderedOnThreads) {
  for (int i = 0; i < 20; ++i) {
    const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
    run_over_streams(device::host::make_host_device({.mode = Mode::kThreaded, .checked = true}));
  }
}

TEST(Threads, RecordAndRunAtOnceAndShareLeaves) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  const Tensor x = leaf_of({1}, {2});
  std::latch ready(kThreads);
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("backward", [&] {
        ready.arrive_and_wait();
        for (int i = 0; i < kRounds; ++i) backward(sum(mul(mul(x, x), x)));
      });
    }
  }
  EXPECT_EQ(values_of(grad(x)), Values({12.0 * kThreads * kRounds}));
}

TEST(Threads, OneMayRunWhatAnotherRecorded) {
  const Tensor x = leaf_of({1}, {2});
  Tensor y = exp(x);
  Tensor z;
  for (int i = 0; i < 100; ++i) (void)neg(x);  // increases the sequence numbers of this thread
  {
    const Thread other("record", [&] { z = mul(y, neg(y)); });
  }
  {
    const Thread other("run", [&] { backward(add(z, y)); });
  }
  EXPECT_DOUBLE_EQ(values_of(grad(x))[0], -2 * std::exp(4.0) + std::exp(2.0));
}

TEST(Threads, TwoRunsThroughOneCallAreRefused) {
  const Tensor x = leaf_of({1}, {2});
  const Tensor y = exp(x);
  const Tensor other = neg(y);
  on_gradient(y, [&](const Tensor&) {
    expect_error<InvalidArgument>([&] { backward(other); }, {"test.exp", "another backward run"});
    return Tensor();
  });
  backward(neg(y));
  EXPECT_DOUBLE_EQ(values_of(grad(x))[0], -std::exp(2.0));
}

TEST(Threads, EachHasItsOwnMode) {
  const Tensor x = leaf_of({1}, {2});
  const NoGrad off;
  bool is_recorded = false;
  {
    const Thread other("mode", [&] { is_recorded = requires_grad(neg(x)); });
  }
  EXPECT_TRUE(is_recorded);
  EXPECT_FALSE(requires_grad(neg(x)));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kDepth = 50'000;
constexpr std::size_t kStack = 4 << 20;  // sanitizers need extra space
#else
constexpr int kDepth = 1'000'000;
constexpr std::size_t kStack = 256 << 10;
#endif

// Runs `body` on a thread with a small stack.
void run_on_small_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  auto in_rank = [rank = current_rank(), body = std::move(body)] {
    const RankScope scope(rank);
    body();
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* at) -> void* {
                  (*static_cast<decltype(in_rank)*>(at))();
                  return nullptr;
                },
                &in_rank),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

Tensor chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < kDepth; ++i) y = neg(y);
  return y;
}

TEST(Depth, AMillionCallsAreRunAndDestroyedWithoutRecursion) {
  run_on_small_stack([] {
    const Tensor x = leaf_of({1}, {2});
    {
      const Tensor y = chain(x);
      backward(y);
      EXPECT_EQ(values_of(grad(x)), Values({1}));
    }
    (void)chain(x);  // destroyed without a backward run
  });
}

TEST(Depth, SavedTensorsAreNoWayIntoRecursionEither) {
  run_on_small_stack([] {
    const Tensor x = leaf_of({1}, {1});
    Tensor y = x;
    for (int i = 0; i < kDepth / 10; ++i) y = mul(y, x);
    y = {};
  });
}

}  // namespace
}  // namespace tessera::autograd::testing
