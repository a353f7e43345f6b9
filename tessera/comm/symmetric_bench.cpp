// Measures symmetric memory on the host: a request, a cached registration, and signals between ranks.
#include <chrono>
#include <memory>
#include <string>

#include "tessera/base/testing/bench.h"
#include "tessera/comm/symmetric.h"
#include "tessera/comm/testing/rank_team.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

struct Pool {
  device::Stream stream = device::Device::get("host").default_stream();
  SymmetricPool pool = SymmetricPool(world(), stream, {.nbytes = 1 << 20});
};

// Returns the mean time of `body` in nanoseconds.
template <class Body>
double mean_ns(int times, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / times;
}

TESSERA_BENCH(shm_symm_barrier) {
  for (const int ranks : {2, 4}) {
    const std::string name = "shm_symm_barrier_w" + std::to_string(ranks);
    if (!context.wants(name)) continue;
    RankTeam team(ranks, [] {
      const auto own = std::make_shared<Pool>();
      return [own] { own->pool.barrier(0, own->stream); };
    });
    (void)team.run(200);
    context.measure({.name = name, .unit = "us", .ours = [&]() -> double { return team.run(200) / 1000; }});
  }
}

TESSERA_BENCH(symm_requests) {
  if (!context.wants("symm_allocate") && !context.wants("symm_register_known")) return;
  const Pool own;
  context.measure({.name = "symm_allocate", .unit = "ns", .ours = [&]() -> double {
                     return mean_ns(10'000, [&] { (void)own.pool.allocate(4096); });
                   }});
  const SymmetricBuffer x = own.pool.allocate(65'536);
  context.measure({.name = "symm_register_known", .unit = "ns", .ours = [&]() -> double {
                     return mean_ns(10'000, [&] { (void)register_memory(world(), x.data(), 65'536, own.stream); });
                   }});
}

}  // namespace
}  // namespace tessera::comm
