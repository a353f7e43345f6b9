// When waits are reported, and the messages.
#include "tessera/comm/store/wait_notice.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/detail/process_world.h"
#include "tessera/comm/store/detail/store_connection.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm::detail {
namespace {

using namespace std::chrono_literals;

TEST(WaitNotice, ComesAfterTenSecondsAndThenEveryThirty) {
  const WaitNotice::Clock::time_point start{};
  WaitNotice notice(start);
  EXPECT_EQ(notice.due(start + 9999ms), std::nullopt);
  EXPECT_EQ(notice.due(start + 10s), 10s);
  EXPECT_EQ(notice.due(start + 11s), std::nullopt);
  EXPECT_EQ(notice.next(), start + 40s);
  EXPECT_EQ(notice.due(start + 45s), 45s);
  EXPECT_EQ(notice.due(start + 74s), std::nullopt);
  EXPECT_EQ(notice.due(start + 75s), 75s);
}

TEST(WaitNotice, TheFirstRankThatCameNamesThoseThatDidNot) {
  const auto store = std::make_shared<MemoryStore>();
  ProcessWorld first(store, Rank(1));
  ProcessWorld second(store, Rank(3));
  const NoticeDelays at_once{.first = 0ns, .next = 1h};
  ::testing::internal::CaptureStderr();
  expect_error<TimeoutError>([&] { first.meet(4, 20ms, at_once); }, {"rank 0, rank 2 did not"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("init: waiting 0 s for rank 0, rank 2 of 4 ranks"), std::string::npos) << said;
  ::testing::internal::CaptureStderr();
  expect_error<TimeoutError>([&] { second.meet(4, 20ms, at_once); }, {"rank 0, rank 2 did not"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "one rank speaks";
}

TEST(WaitNotice, AStoreThatNobodyHostsYetIsNamed) {
  const std::uint16_t port = TcpStoreServer({.secret = "free port"}).port();
  ::testing::internal::CaptureStderr();
  expect_error<TimeoutError>(
      [&] { StoreConnection("tcp store at x", "127.0.0.1", port, "s", 5ms, "", {.first = 0ns, .next = 1h}); },
      {"no connection"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("waiting 0 s for the host of the tcp store at x"), std::string::npos) << said;
}

}  // namespace
}  // namespace tessera::comm::detail
