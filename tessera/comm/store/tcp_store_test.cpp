// Behavior specific to a store behind a socket: ports, lost connections, requests in flight, bounds.
#include "tessera/comm/store/tcp_store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/detail/store_connection.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;
using detail::Answer;
using detail::Descriptor;
using detail::Status;
using detail::StoreConnection;
using detail::StoreRequest;
using detail::StoreRequestKind;

TcpStoreOptions to(const TcpStoreServer& server, const std::string& secret = "sesame") {
  return {.port = server.port(), .secret = secret};
}

TEST(TcpStore, APortInUseIsNamedWithTheWayOut) {
  const TcpStoreServer server({.secret = "a"});
  expect_error<IoError>([&] { TcpStoreServer({.port = server.port(), .secret = "b"}); },
                        {"port " + std::to_string(server.port()), "in use", "choose another port, or 0"});
  expect_error<InvalidArgument>([] { TcpStoreServer({.host = "nowhere.invalid", .secret = "s"}); },
                                {"'nowhere.invalid'", "0.0.0.0"});
  expect_error<IoError>([] { TcpStoreServer({.host = "203.0.113.1", .secret = "s"}); }, {"203.0.113.1:0"});
}

TEST(TcpStore, APortIsFreeAgainWhenItsServerIsGone) {
  std::uint16_t port = 0;
  {
    const TcpStoreServer server({.secret = "sesame"});
    port = server.port();
    TcpStore(to(server)).set("a", "1");
  }
  const TcpStoreServer again({.port = port, .secret = "sesame"});
  EXPECT_EQ(TcpStore(to(again)).find("a"), std::nullopt);
}

TEST(TcpStore, ListensOnThisMachineAloneUnlessTold) {
  const TcpStoreServer everywhere({.host = "0.0.0.0", .secret = "s"});
  TcpStore({.host = "127.0.0.2", .port = everywhere.port(), .secret = "s"}).set("a", "1");
  const TcpStoreServer here({.secret = "s"});
  expect_error<TimeoutError>(
      [&] { TcpStore({.host = "127.0.0.2", .port = here.port(), .secret = "s", .connect_timeout = 1ms}); },
      {"no connection within 1 ms", "refused"});
}

TEST(TcpStore, ListensOnTheAddressOfAName) {
  const TcpStoreServer named({.host = "localhost", .secret = "s"});
  EXPECT_TRUE(named.is_loopback());
  EXPECT_NE(named.address(), "0.0.0.0");
  TcpStore({.host = "localhost", .port = named.port(), .secret = "s"}).set("a", "1");
  const TcpStoreServer second({.host = "127.0.0.2", .secret = "s"});
  EXPECT_EQ(second.address(), "127.0.0.2");
  EXPECT_FALSE(TcpStoreServer({.host = "0.0.0.0", .secret = "s"}).is_loopback());
}

TEST(TcpStore, ConnectingWaitsForTheServer) {
  std::uint16_t port = 0;
  {
    const TcpStoreServer probe({.secret = "s"});
    port = probe.port();
  }
  std::thread late([&] {
    TcpStore store({.port = port, .secret = "s", .connect_timeout = 60s});
    store.set("late", "1");
  });
  const TcpStoreServer server({.port = port, .secret = "s"});
  EXPECT_EQ(TcpStore({.port = port, .secret = "s"}).get("late", 60s), "1");
  late.join();
}

TEST(TcpStore, ConnectingEndsWithAWord) {
  std::uint16_t port = 0;
  {
    const TcpStoreServer probe({.secret = "s"});
    port = probe.port();
  }
  expect_error<TimeoutError>([&] { TcpStore({.port = port, .secret = "s", .connect_timeout = 5ms}); },
                             {std::to_string(port), "5 ms", "refused", "tessera run"});
  expect_error<IoError>([] { TcpStore({.host = "no such host", .port = 1, .secret = "s", .connect_timeout = 5ms}); },
                        {"'no such host'"});
}

TEST(TcpStore, WhatIsNoStoreIsSaid) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread other([&] {
    const Descriptor client(::accept(listener.get(), nullptr, nullptr));
    const std::string_view banner = "220 mail.example.org ESMTP\r\n";
    EXPECT_GT(::send(client.get(), banner.data(), banner.size(), MSG_NOSIGNAL), 0);
    char piece[64];
    while (::recv(client.get(), piece, sizeof piece, 0) > 0) {
    }
  });
  expect_error<IoError>([&] { TcpStore({.port = ntohs(address.sin_port), .secret = "s"}); },
                        {"may not be a store of Tessera"});
  other.join();
}

TEST(TcpStore, ALostServerEndsEveryCall) {
  auto server = std::make_unique<TcpStoreServer>(TcpStoreServerOptions{.secret = "sesame"});
  TcpStore store(to(*server));
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      expect_error<IoError>([&] { store.get("never", 60s); }, {"the connection is lost", "may have ended"});
    });
  }
  while (server->statistics().waits < 4) std::this_thread::yield();
  server.reset();
  for (std::thread& waiter : waiters) waiter.join();
  expect_error<IoError>([&] { store.set("a", "1"); }, {"the connection is lost"});
}

TEST(TcpStore, AClientThatGoesTakesItsWaitsAlong) {
  const TcpStoreServer server({.secret = "sesame"});
  {
    StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
    for (int i = 0; i < 10; ++i) {
      StoreRequest request{.verb = StoreRequestKind::kWait, .timeout_ns = 1'000'000'000'000};
      request.keys = {"a", "b"};
      client.send(request);
    }
    EXPECT_TRUE(client.receive(client.send({.verb = StoreRequestKind::kFind, .key = "a"}),
                               StoreConnection::Clock::now() + 60s));
    EXPECT_EQ(server.statistics().waits, 10u);
  }
  while (server.statistics().connections > 0) std::this_thread::yield();
  EXPECT_EQ(server.statistics().waits, 0u);
  TcpStore(to(server)).set("a", "1");
}

TEST(TcpStore, ManyRequestsAreInFlightAndAnswersFindTheirOwn) {
  const TcpStoreServer server({.secret = "sesame"});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  const auto deadline = StoreConnection::Clock::now() + 60s;
  // A wait sent first gets its reply after the later sets on the same connection.
  StoreRequest wait{.verb = StoreRequestKind::kWait, .timeout_ns = 60'000'000'000};
  wait.keys = {"k999"};
  const std::uint64_t waiting = client.send(wait);
  std::deque<std::uint64_t> numbers;
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys)
    numbers.push_back(client.send({.verb = StoreRequestKind::kSet, .key = key, .value = key}));
  for (const std::string& key : keys) numbers.push_back(client.send({.verb = StoreRequestKind::kFind, .key = key}));
  for (std::size_t i = 2 * keys.size(); i-- > keys.size();) {  // received in a different order than sent
    const std::optional<Answer> answer = client.receive(numbers[i], deadline);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(detail::BodyReader(answer->body).text(), keys[i - keys.size()]);
  }
  EXPECT_EQ(client.receive(waiting, deadline)->status, Status::kOk);
  EXPECT_THROW(client.receive(waiting, deadline), InvalidArgument) << "each number is received once";
}

// More than the sockets and the server's limit hold, in both directions, before anything is received.
TEST(TcpStore, LargeRequestsAndAnswersDoNotLockUp) {
  const TcpStoreServer server({.secret = "sesame"});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  const auto deadline = StoreConnection::Clock::now() + 60s;
  const std::string big(1 << 20, 'x');
  std::vector<std::uint64_t> numbers;
  numbers.push_back(client.send({.verb = StoreRequestKind::kSet, .key = "big", .value = big}));
  for (int i = 0; i < 24; ++i) {
    numbers.push_back(client.send({.verb = StoreRequestKind::kFind, .key = "big"}));
    numbers.push_back(
        client.send({.verb = StoreRequestKind::kCompareSet, .key = "big", .value = big, .expected = big}));
  }
  for (const std::uint64_t number : numbers) {
    const std::optional<Answer> answer = client.receive(number, deadline);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, Status::kOk);
  }
}

TEST(TcpStore, ARequestGivenUpDoesNotDisturbOthers) {
  const TcpStoreServer server({.secret = "sesame"});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  StoreRequest wait{.verb = StoreRequestKind::kWait, .timeout_ns = 60'000'000'000};
  wait.keys = {"a"};
  EXPECT_FALSE(client.receive(client.send(wait), StoreConnection::Clock::now() + 2ms).has_value());
  const auto deadline = StoreConnection::Clock::now() + 60s;
  EXPECT_TRUE(client.receive(client.send({.verb = StoreRequestKind::kSet, .key = "a", .value = "1"}), deadline));
  const auto answer = client.receive(client.send({.verb = StoreRequestKind::kFind, .key = "a"}), deadline);
  EXPECT_EQ(detail::BodyReader(answer->body).text(), "1");
}

// The first waiting thread reads for both; after it has its reply, the other must read.
TEST(TcpStore, WhoReadsForOthersHandsOver) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore shared(to(server));
  TcpStore other(to(server));
  std::thread first([&] { shared.wait(std::vector<std::string>{"x"}, 60s); });
  while (server.statistics().waits < 1) std::this_thread::yield();
  std::thread second([&] { shared.wait(std::vector<std::string>{"y"}, 60s); });
  while (server.statistics().waits < 2) std::this_thread::yield();
  other.set("x", "");
  first.join();
  other.set("y", "");
  second.join();
}

// A key that had a value when the wait began may be removed when the last key is set.
TEST(TcpStore, AWaitLooksAtAllItsKeysAgain) {
  const TcpStoreServer server({.secret = "sesame"});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  const auto deadline = StoreConnection::Clock::now() + 60s;
  client.send({.verb = StoreRequestKind::kSet, .key = "a", .value = "1"});
  StoreRequest wait{.verb = StoreRequestKind::kWait, .timeout_ns = 60'000'000'000};
  wait.keys = {"a", "b"};
  const std::uint64_t waiting = client.send(wait);
  client.send({.verb = StoreRequestKind::kRemove, .key = "a"});
  EXPECT_TRUE(client.receive(client.send({.verb = StoreRequestKind::kSet, .key = "b", .value = "1"}), deadline));
  EXPECT_EQ(server.statistics().waits, 1u);
  client.send({.verb = StoreRequestKind::kSet, .key = "a", .value = "2"});
  EXPECT_EQ(client.receive(waiting, deadline)->status, Status::kOk);
}

TEST(TcpStore, AClientHoldsNoMoreThanItsBound) {
  const TcpStoreServer server({.secret = "sesame", .max_client_bytes = 10'000, .max_bytes = 15'000});
  TcpStore one({.port = server.port(), .secret = "sesame", .label = "rank 3"});
  const std::string value(4000, 'v');
  one.set("a", value);
  one.set("b", value);
  one.set("b", value);  // replaces the first
  const std::initializer_list<std::string_view> words = {"client rank 3 at 127.0.0.1:", "at most 10000 bytes",
                                                         "TESSERA_STORE_CLIENT_BYTES"};
  expect_error<InvalidArgument>([&] { one.set("c", value); }, words);
  expect_error<InvalidArgument>([&] { one.compare_set("c", std::nullopt, value); }, words);
  EXPECT_EQ(one.find("c"), std::nullopt);
  EXPECT_EQ(one.find("b"), value) << "a rejected request changes nothing, and the connection stays";
  one.remove("a");
  one.set("c", value);
  // Small keys count too.
  expect_error<InvalidArgument>(
      [&] {
        for (int i = 0; i < 100; ++i) one.add("k" + std::to_string(i), 1);
      },
      words);
}

TEST(TcpStore, AllClientsTogetherHoldNoMoreThanTheBound) {
  const TcpStoreServer server({.secret = "sesame", .max_client_bytes = 10'000, .max_bytes = 15'000});
  const std::string value(8000, 'v');
  TcpStore(to(server)).set("a", value);  // remains, and is charged, after its client has left
  TcpStore two({.port = server.port(), .secret = "sesame", .label = "rank 4"});
  expect_error<InvalidArgument>([&] { two.set("b", value); },
                                {"all clients may hold at most 15000 bytes", "client rank 4", "TESSERA_STORE_BYTES",
                                 "client process " + std::to_string(::getpid()) + " holds the most"});
  two.set("a", value);
  two.remove("a");
  two.set("b", value);
}

TEST(TcpStore, PendingWaitsCountAsWell) {
  const TcpStoreServer server({.secret = "sesame", .max_client_bytes = 10'000});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  StoreRequest wait{.verb = StoreRequestKind::kWait, .timeout_ns = 60'000'000'000};
  const std::string key(1000, 'k');
  wait.keys = {key, "b", "c"};
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) last = client.send(wait);
  const auto answer = client.receive(last, StoreConnection::Clock::now() + 60s);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, Status::kInvalid);
  EXPECT_LT(server.statistics().waits, 10u);
}

TEST(TcpStore, ManyThreadsShareOneConnection) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore store(to(server));
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      const std::string me = "thread" + std::to_string(t);
      for (int i = 0; i < 50; ++i) {
        store.set(me, std::to_string(i));
        EXPECT_EQ(store.find(me), std::to_string(i));
        store.add("all", 1);
      }
      store.set(me + "/done", "");
      store.get("thread" + std::to_string((t + 1) % 16) + "/done", 60s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.add("all", 0), 16 * 50);
  EXPECT_EQ(server.statistics().accepted, 1u);
}

}  // namespace
}  // namespace tessera::comm
