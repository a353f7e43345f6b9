// Processes become ranks: from options, from the environment, through a directory and through a socket.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/detail/group_hooks.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/store/tcp_store.h"
#include "tessera/comm/store/tcp_store_server.h"
#include "tessera/comm/testing/forked.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

// Runs bodies in separate processes at the same time; all must succeed.
void in_processes(const std::vector<std::function<void()>>& bodies) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (const auto& body : bodies) {
    const pid_t child = ::fork();
    if (child == 0) {
      leave_out_what_the_parent_registered();
      try {
        body();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      std::exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

void expect_sum(int ranks) {
  const device::Stream stream = device::Device::get("host").default_stream();
  std::int64_t sum = 1;
  world().all_reduce(&sum, &sum, 1, DType::kI64, {}, stream).wait();
  EXPECT_EQ(sum, ranks);
}

void barrier() { world().launch({.kind = OpKind::kBarrier}, device::Device::get("host").default_stream()).wait(); }

// Notes the end of its rank in the store, with a delay that exposes a peer that reads it too early.
class EndObserver final : public detail::GroupObserver {
 public:
  static void note_end() {
    const std::string noticed = "noticed";
    try {
      store()->wait(std::span(&noticed, 1), 100ms);
    } catch (const TimeoutError&) {
      // Expected.
    }
    store()->set("noted", "");
  }
  void rank_opens(const RankPlace& /*place*/, bool /*is_process*/) override {}
  void rank_is_placed() override { std::atexit(note_end); }
  void group_opens(detail::ObservedGroup /*group*/) override {}
  void group_closes(detail::ObservedGroup /*group*/) noexcept override {}
  void failed(const detail::RankFailure& /*trouble*/) noexcept override {}
};

std::string temporary() {
  char name[] = "/tmp/tessera_init_XXXXXX";
  EXPECT_NE(::mkdtemp(name), nullptr);
  return name;
}

// Returns a port that was free a moment ago.
std::uint16_t free_port() { return TcpStoreServer({.secret = "free port"}).port(); }

void set_environment(int rank, int ranks, std::uint16_t port) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

TEST(Init, ReadsTheEnvironmentAndRankZeroHostsTheStore) {
  const std::uint16_t port = free_port();
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < 3; ++rank) {
    bodies.emplace_back([=] {
      set_environment(rank, 3, port);
      init();
      EXPECT_EQ(current_place().rank, Rank(rank));
      EXPECT_EQ(current_place().local_world_size, 3);
      EXPECT_EQ(world().backend(), "shm");
      expect_sum(3);
      // Ranks of one machine find a secret by themselves; other clients do not.
      expect_error<MismatchError>([&] { TcpStore({.port = port, .allow_no_secret = true}); }, {"secret"});
      // No rank exits before all have finished with the store.
      const device::Stream stream = device::Device::get("host").default_stream();
      world().launch({.kind = OpKind::kBarrier}, stream).wait();
    });
  }
  in_processes(bodies);
}

TEST(Init, RankZeroListensOnTheNamedAddressAlone) {
  const std::uint16_t port = free_port();
  in_processes({[&] {
    set_environment(0, 2, port);
    ::setenv("MASTER_ADDR", "127.0.0.2", 1);
    ::setenv("TESSERA_STORE_SECRET", "sesame", 1);
    expect_error<TimeoutError>([] { init({.timeout = 10ms}); }, {"rank 1 did not"});
    // The store remains.
    TcpStore({.host = "127.0.0.2", .port = port, .secret = "sesame"}).set("a", "1");
    expect_error<TimeoutError>([&] { TcpStore({.port = port, .secret = "sesame", .connect_timeout = 1ms}); },
                               {"no connection", "refused"});
  }});
}

TEST(Init, AWorldOfSeveralMachinesNeedsASecretAndAnAddressThatTheyReach) {
  in_processes({[] {
    set_environment(0, 2, free_port());
    ::setenv("LOCAL_RANK", "0", 1);
    ::setenv("LOCAL_WORLD_SIZE", "1", 1);
    expect_error<InvalidArgument>([] { init(); }, {"needs a secret, got none", "TESSERA_STORE_SECRET="});
    ::setenv("TESSERA_STORE_SECRET", "sesame", 1);
    expect_error<InvalidArgument>([] { init(); },
                                  {"other machines reach", "127.0.0.1", "MASTER_ADDR", "TESSERA_STORE_BIND"});
  }});
}

TEST(Init, TheObserverNotesTheEndOfARankBeforePeersSeeThatItLeft) {
  const std::string base = temporary();
  const InitOptions options{.world_size = 2, .store = "file://" + base + "/store"};
  const auto place = [&](int rank) {
    InitOptions placed = options;
    placed.rank = rank;
    init(placed);
    barrier();
  };
  in_processes({[&] {
                  place(0);
                  EXPECT_THROW(barrier(), AbortedError);
                  EXPECT_TRUE(store()->find("noted").has_value());
                  store()->set("noticed", "");
                },
                [&] {
                  static EndObserver observer;
                  detail::set_group_observer(&observer);
                  place(1);
                }});
  std::filesystem::remove_all(base);
}

TEST(Init, TakesWhatItIsGivenOverADirectory) {
  const std::string base = temporary();
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < 2; ++rank) {
    bodies.emplace_back([=] {
      const InitOptions options{.rank = rank, .world_size = 2, .store = "file://" + base + "/store"};
      init(options);
      init(options);  // the same rank again has no effect
      expect_error<InvalidArgument>([&] { init({.rank = 1 - rank, .world_size = 2, .store = options.store}); },
                                    {"already", "cannot be rank " + std::to_string(1 - rank)});
      expect_sum(2);
    });
  }
  in_processes(bodies);
  std::filesystem::remove_all(base);
}

TEST(Init, AnAddressThatIsGivenIsHostedByRankZero) {
  const std::string store = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < 2; ++rank) {
    bodies.emplace_back([=] {
      init({.rank = rank, .world_size = 2, .store = store});
      expect_sum(2);
      comm::store()->set("done " + std::to_string(rank), "");
      const std::string keys[] = {"done 0", "done 1"};
      if (rank == 0) comm::store()->wait(keys, 20s);
    });
  }
  in_processes(bodies);
}

TEST(Init, TheEnvironmentSetsTheDeadlineOfGroups) {
  in_processes({[] {
    init();
    EXPECT_EQ(world().deadline(), 300s);
  }});
  in_processes({[] {
    ::setenv("TESSERA_DEADLINE", "7", 1);
    init();
    EXPECT_EQ(world().deadline(), 7s);
  }});
}

TEST(Init, WithoutAnythingIsAWorldOfOne) {
  in_processes({[] {
    init();
    EXPECT_EQ(current_place().world_size, 1);
    expect_sum(1);
  }});
}

TEST(Init, RanksThatDoNotComeAreNamed) {
  const std::string base = temporary();
  in_processes({[&] {
    expect_error<TimeoutError>(
        [&] { init({.rank = 1, .world_size = 3, .store = "file://" + base + "/store", .timeout = 50ms}); },
        {"all 3 ranks must join", "rank 0, rank 2 did not"});
  }});
  std::filesystem::remove_all(base);
}

TEST(Init, ComesBeforeTheRankIsUsed) {
  const std::string base = temporary();
  in_processes({[&] {
    (void)device::Device::get("host").default_stream();
    expect_error<InvalidArgument>([&] { init({.rank = 0, .world_size = 2, .store = "file://" + base + "/store"}); },
                                  {"already in use"});
  }});
  std::filesystem::remove_all(base);
}

TEST(Init, HalfAPlaceIsRefused) {
  expect_error<InvalidArgument>([] { init({.rank = 1}); }, {"rank and world_size"});
}

TEST(RankProcesses, TellHowEachEnded) {
  const std::vector<ProcessEnd> ends = run_rank_processes(3, [](int rank) {
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    if (rank == 2) TESSERA_THROW(IoError, "on purpose");
  });
  EXPECT_EQ(ends[0].exit_code, 0);
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_EQ(ends[2].exit_code, 1);
}

}  // namespace
}  // namespace tessera::comm
