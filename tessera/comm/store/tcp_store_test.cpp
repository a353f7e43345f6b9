// What only a store behind a socket can do wrong: secrets, ports, strangers, lost connections, requests in flight.
#include "tessera/comm/store/tcp_store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/detail/descriptor.h"
#include "tessera/comm/store/detail/store_connection.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;
using detail::Answer;
using detail::Descriptor;
using detail::Request;
using detail::Status;
using detail::StoreConnection;
using detail::Verb;

TcpStoreOptions to(const TcpStoreServer& server, const std::string& secret = "sesame") {
  return {.port = server.port(), .secret = secret};
}

// A plain socket, as a stranger has one.
Descriptor stranger(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

// Sends bytes and reads until the other side closes.
std::string exchange_until_closed(const Descriptor& socket, std::string_view bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  std::string seen;
  char piece[4096];
  for (ssize_t got = 0; (got = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;)
    seen.append(piece, static_cast<std::size_t>(got));
  return seen;
}

std::string hello(const std::string& secret, std::uint32_t version = detail::kProtocolVersion) {
  std::string bytes;
  detail::write_request(bytes, {.number = 1, .verb = Verb::kHello, .key = secret, .version = version});
  return bytes;
}

TEST(TcpStore, AWrongSecretIsRefused) {
  const TcpStoreServer server({.secret = "sesame"});
  for (const std::string& wrong :
       {std::string(), std::string("sesam"), std::string("sesame!"), std::string("Sesame")}) {
    expect_error<MismatchError>([&] { TcpStore(to(server, wrong)); },
                                {"127.0.0.1:" + std::to_string(server.port()), "secret", "TESSERA_STORE_SECRET"});
  }
  EXPECT_EQ(server.statistics().refused, 4u);
  TcpStore right(to(server));
  right.set("a", "1");
  EXPECT_EQ(right.find("a"), "1");
}

TEST(TcpStore, NothingIsAnsweredBeforeTheSecret) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore inside(to(server));
  inside.set("a", "1");
  std::string request;
  detail::write_request(request, {.number = 1, .verb = Verb::kRemove, .key = "a"});
  EXPECT_EQ(exchange_until_closed(stranger(server.port()), request), "");
  // After a wrong one, what follows in the same write is not looked at either.
  const std::string seen = exchange_until_closed(stranger(server.port()), hello("wrong") + request);
  EXPECT_NE(seen.find("not the one of this store"), std::string::npos);
  EXPECT_EQ(inside.find("a"), "1");
  EXPECT_EQ(server.statistics().bad_frames, 1u);
}

TEST(TcpStore, AnotherVersionIsRefusedWithAWord) {
  const TcpStoreServer server({.secret = "sesame"});
  EXPECT_NE(exchange_until_closed(stranger(server.port()), hello("sesame", 7)).find("version 7"), std::string::npos);
}

TEST(TcpStore, BadFramesEndTheirConnectionAlone) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore inside(to(server));
  const std::string huge("\xff\xff\xff\x7f", 4);
  const std::string tiny(4, '\0');
  const std::string unknown_verb("\x09\0\0\0\1\0\0\0\0\0\0\0\x63", 13);
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  exchange_until_closed(stranger(server.port()), huge);
  exchange_until_closed(stranger(server.port()), http);
  for (const std::string& bad : {huge, tiny, unknown_verb, hello("sesame")}) {
    exchange_until_closed(stranger(server.port()), hello("sesame") + bad);
  }
  inside.set("a", "1");
  EXPECT_EQ(inside.find("a"), "1");
  const StoreStatistics seen = server.statistics();
  EXPECT_EQ(seen.bad_frames, 6u);
  EXPECT_EQ(seen.connections, 1u);
  EXPECT_EQ(seen.accepted, 7u);
}

TEST(TcpStore, APortInUseIsNamedWithTheWayOut) {
  const TcpStoreServer server({.secret = "a"});
  expect_error<IoError>([&] { TcpStoreServer({.port = server.port(), .secret = "b"}); },
                        {"port " + std::to_string(server.port()), "in use", "choose another port, or 0"});
  expect_error<InvalidArgument>([] { TcpStoreServer({.host = "nowhere"}); }, {"'nowhere'", "0.0.0.0"});
  expect_error<IoError>([] { TcpStoreServer({.host = "203.0.113.1"}); }, {"203.0.113.1:0"});
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

TEST(TcpStore, ConnectingWaitsForTheServer) {
  std::uint16_t port = 0;
  {
    const TcpStoreServer probe({});
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
    const TcpStoreServer probe({});
    port = probe.port();
  }
  expect_error<TimeoutError>([&] { TcpStore({.port = port, .connect_timeout = 5ms}); },
                             {std::to_string(port), "5 ms", "refused", "tessera run"});
  expect_error<IoError>([] { TcpStore({.host = "no such host", .port = 1, .connect_timeout = 5ms}); },
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
                        {"may be no store of Tessera"});
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
      Request request{.verb = Verb::kWait, .timeout_ns = 1'000'000'000'000};
      request.keys = {"a", "b"};
      client.send(request);
    }
    EXPECT_TRUE(client.receive(client.send({.verb = Verb::kFind, .key = "a"}), StoreConnection::Clock::now() + 60s));
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
  // A wait sent first is answered after the sets that follow it, on the same connection.
  Request wait{.verb = Verb::kWait, .timeout_ns = 60'000'000'000};
  wait.keys = {"k999"};
  const std::uint64_t waiting = client.send(wait);
  std::deque<std::uint64_t> numbers;
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) numbers.push_back(client.send({.verb = Verb::kSet, .key = key, .value = key}));
  for (const std::string& key : keys) numbers.push_back(client.send({.verb = Verb::kFind, .key = key}));
  for (std::size_t i = 2 * keys.size(); i-- > keys.size();) {  // taken in another order than sent
    const std::optional<Answer> answer = client.receive(numbers[i], deadline);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(detail::BodyReader(answer->body).text(), keys[i - keys.size()]);
  }
  EXPECT_EQ(client.receive(waiting, deadline)->status, Status::kOk);
  EXPECT_THROW(client.receive(waiting, deadline), InvalidArgument) << "each number is received once";
}

// More than sockets and the server's limit hold, both ways, before anything is taken.
TEST(TcpStore, LargeRequestsAndAnswersDoNotLockUp) {
  const TcpStoreServer server({.secret = "sesame"});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  const auto deadline = StoreConnection::Clock::now() + 60s;
  const std::string big(1 << 20, 'x');
  std::vector<std::uint64_t> numbers;
  numbers.push_back(client.send({.verb = Verb::kSet, .key = "big", .value = big}));
  for (int i = 0; i < 24; ++i) {
    numbers.push_back(client.send({.verb = Verb::kFind, .key = "big"}));
    numbers.push_back(client.send({.verb = Verb::kCompareSet, .key = "big", .value = big, .expected = big}));
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
  Request wait{.verb = Verb::kWait, .timeout_ns = 60'000'000'000};
  wait.keys = {"a"};
  EXPECT_FALSE(client.receive(client.send(wait), StoreConnection::Clock::now() + 2ms).has_value());
  const auto deadline = StoreConnection::Clock::now() + 60s;
  EXPECT_TRUE(client.receive(client.send({.verb = Verb::kSet, .key = "a", .value = "1"}), deadline));
  const auto answer = client.receive(client.send({.verb = Verb::kFind, .key = "a"}), deadline);
  EXPECT_EQ(detail::BodyReader(answer->body).text(), "1");
}

// The first to wait reads for both; when it has its own and goes, the other must read on.
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

// A key that was there when the wait began may be gone when the last one comes.
TEST(TcpStore, AWaitLooksAtAllItsKeysAgain) {
  const TcpStoreServer server({.secret = "sesame"});
  StoreConnection client("client", "127.0.0.1", server.port(), "sesame", 60s);
  const auto deadline = StoreConnection::Clock::now() + 60s;
  client.send({.verb = Verb::kSet, .key = "a", .value = "1"});
  Request wait{.verb = Verb::kWait, .timeout_ns = 60'000'000'000};
  wait.keys = {"a", "b"};
  const std::uint64_t waiting = client.send(wait);
  client.send({.verb = Verb::kRemove, .key = "a"});
  EXPECT_TRUE(client.receive(client.send({.verb = Verb::kSet, .key = "b", .value = "1"}), deadline));
  EXPECT_EQ(server.statistics().waits, 1u);
  client.send({.verb = Verb::kSet, .key = "a", .value = "2"});
  EXPECT_EQ(client.receive(waiting, deadline)->status, Status::kOk);
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
