// Measures small requests per second to the store behind a socket. The server and its clients share the cores of the
// machine, as the ranks of a run do.
#include <deque>
#include <thread>

#include "tessera/base/testing/bench.h"
#include "tessera/comm/store/detail/store_connection.h"
#include "tessera/comm/store/tcp_store.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;
using detail::StoreConnection;
using detail::StoreRequestKind;

constexpr int kClients = 4;
constexpr std::size_t kInFlight = 64;
constexpr std::size_t kEach = 4096;  // requests per client and sample

// One client's sample: alternating sets and finds, with 64 in flight at any time.
void ask_many(StoreConnection& client) {
  const auto deadline = StoreConnection::Clock::now() + 60s;
  std::deque<std::uint64_t> numbers;
  for (std::size_t i = 0; i < kEach; ++i) {
    if (numbers.size() == kInFlight) {
      bench::do_not_optimize(client.receive(numbers.front(), deadline));
      numbers.pop_front();
    }
    const char* key = i % 4 < 2 ? "some/key" : "another/key";
    const bool is_set = i % 2 == 0;
    numbers.push_back(client.send({.verb = is_set ? StoreRequestKind::kSet : StoreRequestKind::kFind,
                                   .key = key,
                                   .value = is_set ? "16 bytes of value" : ""}));
  }
  for (; !numbers.empty(); numbers.pop_front()) bench::do_not_optimize(client.receive(numbers.front(), deadline));
}

TESSERA_BENCH(store_requests) {
  const TcpStoreServer server({.secret = "bench"});
  std::vector<std::unique_ptr<StoreConnection>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(std::make_unique<StoreConnection>("client", "127.0.0.1", server.port(), "bench", 60s));
  context.measure({.name = "store_requests",
                   .unit = "/s",
                   .ours = [&]() -> double {
                     const double ns = bench::run_together(
                         kClients, [&](int which) { ask_many(*clients[static_cast<std::size_t>(which)]); });
                     return kClients * kEach * 1e9 / ns;
                   },
                   .must = 100'000});
}

// The same number in flight, by threads that each wait for their own, as in ranks with many threads.
TESSERA_BENCH(store_requests_threads) {
  const TcpStoreServer server({.secret = "bench"});
  std::vector<std::unique_ptr<TcpStore>> stores;
  for (int i = 0; i < kClients; ++i)
    stores.push_back(std::make_unique<TcpStore>(TcpStoreOptions{.port = server.port(), .secret = "bench"}));
  constexpr int kThreads = kClients * static_cast<int>(kInFlight);
  constexpr int kOfThread = 32;
  context.measure({.name = "store_requests_threads", .unit = "/s", .ours = [&]() -> double {
                     const double ns = bench::run_together(kThreads, [&](int which) {
                       TcpStore& store = *stores[static_cast<std::size_t>(which % kClients)];
                       for (int i = 0; i < kOfThread; ++i) bench::do_not_optimize(store.find("some/key"));
                     });
                     return kThreads * kOfThread * 1e9 / ns;
                   }});
}

TESSERA_BENCH(store_round_trip) {
  const TcpStoreServer server({.secret = "bench"});
  TcpStore store({.port = server.port(), .secret = "bench"});
  context.measure(
      {.name = "store_round_trip", .unit = "us", .ours = [&] { bench::do_not_optimize(store.find("key")); }});
}

}  // namespace
}  // namespace tessera::comm
