// Forked children of ranks: they are not ranks, and do not disturb the group of their parent.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/store/tcp_store.h"
#include "tessera/comm/store/tcp_store_server.h"
#include "tessera/comm/symmetric.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

constexpr int kRounds = 20;

device::Stream stream() { return device::Device::get("host").default_stream(); }

// Returns the sum of 1 over the ranks of the world.
std::int64_t count_ranks(const ProcessGroup& group) {
  std::int64_t sum = 1;
  group.all_reduce(&sum, &sum, 1, DType::kI64, {}, stream()).wait();
  return sum;
}

// Returns true if `use` throws an error that names the fork and the object.
bool is_rejected(const std::function<void()>& use, const std::string& what) {
  try {
    use();
  } catch (const NotSupported& error) {
    return error.message().find(what + ": ") == 0 && error.message().find("forked child") != std::string::npos;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", what.c_str(), error.what());
  }
  return false;
}

// Forks. The child runs `body` and exits without exit handlers, with code 0 if it returned true.
pid_t fork_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  bool is_right = false;
  try {
    is_right = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forked child: %s\n", error.what());
  }
  ::_exit(is_right ? 0 : 1);
}

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

void expect_all_well(const std::vector<ProcessEnd>& ends) {
  for (const ProcessEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
}

TEST(ForkedChild, ThatUsesAnInheritedGroupThrowsAndLeavesItsSumsAlone) {
  expect_all_well(run_rank_processes(2, [](int rank) {
    const ProcessGroup group = world();
    EXPECT_EQ(count_ranks(group), 2);
    const device::Stream own = stream();
    const pid_t child = rank != 0 ? -1 : fork_child([&] {
      for (int i = 0; i < kRounds; ++i) {
        const auto use = [&] {
          std::int64_t sum = 1000;
          group.all_reduce(&sum, &sum, 1, DType::kI64, {}, own).wait();
        };
        if (!is_rejected(use, "process group")) return false;
      }
      return true;
    });
    for (int i = 0; i < kRounds; ++i) EXPECT_EQ(count_ranks(group), 2);
    if (rank == 0) {
      EXPECT_EQ(status_of(child), 0);
    }
    EXPECT_EQ(count_ranks(group), 2);
  }));
}

TEST(ForkedChild, ThatOnlyExitsDoesNotTakeItsParentOutOfTheGroup) {
  expect_all_well(run_rank_processes(2, [](int rank) {
    const ProcessGroup group = world();
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_EQ(count_ranks(group), 2);
      if (rank != 0) continue;
      const pid_t child = ::fork();
      if (child == 0) std::exit(0);
      EXPECT_EQ(status_of(child), 0);
    }
    EXPECT_EQ(count_ranks(group), 2);
    EXPECT_EQ(group.error(), nullptr);
  }));
}

TEST(ForkedChild, HandlesOfItsParentThrow) {
  expect_all_well(run_rank_processes(2, [](int rank) {
    const ProcessGroup group = world();
    const SymmetricPool pool(group, stream(), {.nbytes = 4096});
    const Work work = group.launch({.kind = OpKind::kBarrier}, stream());
    work.wait();
    const std::shared_ptr<RankContext> context = current_rank();
    const TcpStoreServer server({.secret = "a secret"});
    TcpStore tcp({.port = server.port(), .secret = "a secret"});
    tcp.set("key", "value");
    if (rank == 0) {
      const pid_t child = fork_child([&] {
        return is_rejected([&] { (void)group.name(); }, "process group") &&
               is_rejected([&] { group.abort("a child"); }, "process group") &&
               is_rejected([&] { (void)group.split(0); }, "process group") &&
               is_rejected([&] { (void)pool.allocate(64); }, "symmetric memory") &&
               is_rejected([&] { work.wait(); }, "work") && is_rejected([&] { (void)tcp.find("key"); }, "store") &&
               is_rejected([&] { (void)context->find_part<int>(); }, "rank");
      });
      EXPECT_EQ(status_of(child), 0);
    }
    EXPECT_EQ(tcp.find("key"), "value");
    EXPECT_EQ(count_ranks(group), 2);
  }));
}

TEST(ForkedChild, OfASimulatedRankIsAWorldOfOne) {
  simulate(2, [] {
    const ProcessGroup group = world();
    EXPECT_EQ(count_ranks(group), 2);
    const std::shared_ptr<RankContext> context = current_rank();
    const pid_t child = fork_child([&] {
      return is_rejected([&] { (void)group.name(); }, "process group") &&
             is_rejected([&] { (void)context->find_part<int>(); }, "rank") && current_rank() != context &&
             current_place().world_size == 1 && count_ranks(world()) == 1;
    });
    EXPECT_EQ(status_of(child), 0);
    EXPECT_EQ(count_ranks(group), 2);
  });
}

TEST(ForkedChild, IsAWorldOfOneUntilItMakesAnother) {
  expect_all_well(run_rank_processes(2, [](int rank) {
    const ProcessGroup group = world();
    EXPECT_EQ(count_ranks(group), 2);
    if (rank == 0) {
      const pid_t child = fork_child([] {
        store()->set("here", "");  // its own store
        return current_place().world_size == 1 && count_ranks(world()) == 1;
      });
      EXPECT_EQ(status_of(child), 0);
    }
    EXPECT_EQ(store()->find("here"), std::nullopt);
    EXPECT_EQ(count_ranks(group), 2);
  }));
}

TEST(ForkedChild, ThatCallsExecIsNotRestricted) {
  expect_all_well(run_rank_processes(2, [](int rank) {
    const ProcessGroup group = world();
    EXPECT_EQ(count_ranks(group), 2);
    if (rank == 0) {
      EXPECT_EQ(std::system("exit 0"), 0);
    }
    EXPECT_EQ(count_ranks(group), 2);
  }));
}

}  // namespace
}  // namespace tessera::comm
