// The start and the end of simulated ranks.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera {
namespace {

device::Stream stream() { return device::Device::get("host").default_stream(); }

TEST(Simulate, RecordsOfRanksAreSmallUnlessTheEnvironmentSays) {
  const auto sizes = [] {
    std::atomic<std::uintmax_t> total = 0;
    simulate(3, [&] { total += std::filesystem::file_size(probe::recorder().path()); });
    return total.load();
  };
  ::unsetenv("TESSERA_RECORD_BYTES");
  EXPECT_EQ(sizes(), 3U << 20);
  ::setenv("TESSERA_RECORD_BYTES", "2MiB", 1);
  EXPECT_EQ(sizes(), 6U << 20);
  ::unsetenv("TESSERA_RECORD_BYTES");
}

TEST(Simulate, EndsWhenTheWorkOfAllRanksHas) {
  for (const SimulateOptions& how : {SimulateOptions(), SimulateOptions{.seed = 1}, SimulateOptions{.seed = 2}}) {
    std::atomic<int> done = 0;
    simulate(
        4,
        [&] {
          for (int i = 0; i < 10; ++i) {
            comm::world().launch({.kind = comm::OpKind::kBarrier}, stream());
            stream().run([&] { ++done; });
          }
        },
        how);
    EXPECT_EQ(done, 40);
  }
}

TEST(Simulate, ThrowsWhatWorkEndsWithThatNobodyWaitedFor) {
  const auto body = [] {
    if (current_place().rank != Rank(1)) return;
    stream().run([] { TESSERA_THROW(InvalidArgument, "work in flight"); });
  };
  EXPECT_THROW(simulate(2, body), Error);
  EXPECT_THROW(simulate(2, body, {.seed = 1}), Error);
}

// The others wait for a rank that failed: it informs them before it waits for its own work, which waits for them.
TEST(Simulate, ARankThatFailsWithWorkInFlightEndsTheOthers) {
  const auto body = [] {
    comm::world().launch({.kind = comm::OpKind::kBarrier}, stream()).wait();
    if (current_place().rank == Rank(1)) {
      comm::world().launch({.kind = comm::OpKind::kBarrier}, stream());
      TESSERA_THROW(InvalidArgument, "gives up");
    }
    if (current_place().rank == Rank(0)) return;
    comm::world().launch({.kind = comm::OpKind::kBarrier}, stream()).wait();
  };
  for (const SimulateOptions& how : {SimulateOptions(), SimulateOptions{.seed = 3}}) {
    EXPECT_THROW(simulate(3, body, how), Error);
  }
}

TEST(Simulate, ReportsExceptionsThatAreNoStdException) {
  for (const SimulateOptions& how : {SimulateOptions(), SimulateOptions{.seed = 1}}) {
    const auto fails = [&](const std::function<void()>& body) {
      simulate(
          2,
          [&] {
            if (current_place().rank == Rank(1)) body();
            comm::world().launch({.kind = comm::OpKind::kBarrier}, stream()).wait();
          },
          how);
    };
    expect_error<AbortedError>([&] { fails([] { throw 7; }); }, {"simulate", "std::exception", "type int"});
    expect_error<AbortedError>([&] { fails([] { throw "words"; }); }, {"simulate", "char const*: words"});
    expect_error<AbortedError>(
        [&] {
          fails([] {
            stream().run([] { throw 7; });
            stream().synchronize();
          });
        },
        {"stream", "type int"});
  }
}

TEST(Simulate, ARankThatCallsPthreadExitEndsTheOthers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not see the end of a thread that unwinds by pthread_exit";
#endif
  const auto body = [] {
    comm::world().launch({.kind = comm::OpKind::kBarrier}, stream()).wait();
    if (current_place().rank == Rank(1)) ::pthread_exit(nullptr);
    comm::world().launch({.kind = comm::OpKind::kBarrier}, stream()).wait();
  };
  for (const SimulateOptions& how : {SimulateOptions(), SimulateOptions{.seed = 1}}) {
    expect_error<AbortedError>([&] { simulate(3, body, how); }, {"simulate", "pthread_exit", "rank 1"});
  }
}

}  // namespace
}  // namespace tessera
