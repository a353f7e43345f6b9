// Measures collectives between processes of this machine and between threads, and the cost of a launch.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/peer_team.h"
#include "tessera/comm/testing/rank_team.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

std::string size_text(std::size_t nbytes) {
  return nbytes >= kMiB ? std::to_string(nbytes / kMiB) + "MiB" : std::to_string(nbytes / kKiB) + "KiB";
}

// Two device buffers and an operation between them.
struct Buffers {
  explicit Buffers(std::size_t nbytes)
      : host(device::Device::get("host")),
        stream(host.default_stream()),
        in(memory::Allocator::of(host).allocate(nbytes, stream)),
        out(memory::Allocator::of(host).allocate(nbytes, stream)) {
    std::memset(in.data(), 0, nbytes);
    std::memset(out.data(), 0, nbytes);
  }
  device::Device host;
  device::Stream stream;
  memory::Buffer in;
  memory::Buffer out;
};

// About 10 ms of work per sample.
int times_for(std::size_t nbytes) {
  return static_cast<int>(std::max<std::size_t>(1, 20 * kMiB / (nbytes + 8 * kKiB)));
}

// Returns the fastest team for this job, from a few alternating samples of each.
PeerTeam& fastest(std::vector<std::unique_ptr<PeerTeam>>& teams, int times) {
  constexpr int kRounds = 7;
  std::vector<std::vector<double>> samples(teams.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < teams.size(); ++i) samples[i].push_back(teams[i]->run(times));
  }
  std::vector<double> medians;
  for (const std::vector<double>& each : samples) medians.push_back(bench::summarize(each).median);
  return *teams[static_cast<std::size_t>(std::ranges::min_element(medians) - medians.begin())];
}

// A collective between processes of this machine, compared with the fastest configuration of Open MPI. If `has_beside`,
// the times of all configurations and of gloo are shown too.
struct ShmRow {
  OpKind kind;
  int ranks;
  std::size_t nbytes;  // size of the larger buffer
  double must_ratio;
  bool has_beside = false;
};

// Starts the ranks of a row.
RankTeam team_of(const ShmRow& row) {
  return RankTeam(row.ranks, [&] {
    const auto buffers = std::make_shared<Buffers>(row.nbytes);
    Operation op{.kind = row.kind, .dtype = DType::kF32, .in = buffers->in.data(), .out = buffers->out.data()};
    op.count = static_cast<std::int64_t>(row.nbytes / 4) / (row.kind == OpKind::kAllReduce ? 1 : row.ranks);
    return [buffers, op, group = world()] { group.launch(op, buffers->stream); };
  });
}

void measure_shm(bench::Context& context, const ShmRow& row) {
  const std::string job =
      std::string(to_string(row.kind)) + "_w" + std::to_string(row.ranks) + "_" + size_text(row.nbytes);
  std::string why;
  std::vector<Peer> rivals = mpi_peers(why);
  std::vector<Peer> shown = rivals;
  for (const Peer& peer : gloo_peers()) shown.push_back(peer);
  // Peer jobs start slowly and, on a busy machine, run slowly.
  if (!row.has_beside || (context.is_brief() && row.nbytes > kKiB)) shown.clear();
  if (context.is_brief() && rivals.size() > 1) rivals.resize(1);
  const int times = context.is_brief() ? 1 : times_for(row.nbytes);
  if (context.wants("shm_" + job)) {
    // Started before the peers: it forks, and its children must not inherit their pipes.
    RankTeam team = team_of(row);
    std::vector<std::unique_ptr<PeerTeam>> teams;
    for (const Peer& peer : rivals) {
      teams.push_back(std::make_unique<PeerTeam>(peer, row.ranks, row.kind, row.nbytes));
    }
    (void)team.run(times);
    PeerTeam* best = teams.empty() ? nullptr : &fastest(teams, times);
    context.measure({.name = "shm_" + job,
                     .unit = "us",
                     .ours = [&]() -> double { return team.run(times) / 1000; },
                     .reference_name = best != nullptr ? best->peer().name : "no reference: " + why,
                     .reference = best == nullptr ? bench::BenchWork() : bench::BenchWork([&]() -> double {
                       return best->run(times) / 1000;
                     }),
                     .must_ratio = row.must_ratio});
  }
  for (const Peer& peer : shown) {
    const std::string name = peer.key + "_" + job;
    if (!context.wants(name)) continue;
    PeerTeam team(peer, row.ranks, row.kind, row.nbytes);
    // Some are a thousand times slower than others.
    const int fewer = std::clamp(static_cast<int>(1e7 / team.run(3)), 1, times);
    context.measure({.name = name, .unit = "us", .ours = [&]() -> double { return team.run(fewer) / 1000; }});
  }
}

TESSERA_BENCH(shm_all_reduce_w2) {
  for (const std::size_t nbytes : {kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB}) {
    const double must = nbytes == kKiB ? 0.8 : nbytes == 64 * kKiB ? 1.3 : 1.5;
    measure_shm(context, {OpKind::kAllReduce, 2, nbytes, must, /*has_beside=*/true});
  }
}

TESSERA_BENCH(shm_all_reduce_checked) {
  const std::string name = "shm_all_reduce_w2_1KiB_checked";
  if (!context.wants(name)) return;
  ::setenv("TESSERA_COMM_CHECK", "1", 1);  // for the ranks
  RankTeam team = team_of({OpKind::kAllReduce, 2, kKiB, 0});
  ::unsetenv("TESSERA_COMM_CHECK");
  const int times = times_for(kKiB);
  context.measure({.name = name, .unit = "us", .ours = [&]() -> double { return team.run(times) / 1000; }});
}

TESSERA_BENCH(shm_all_reduce_w4) {
  for (const std::size_t nbytes : {kKiB, kMiB, 64 * kMiB}) {
    measure_shm(context, {OpKind::kAllReduce, 4, nbytes, 1.5, /*has_beside=*/true});
  }
}

TESSERA_BENCH(shm_transfers_w2) {
  for (const OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll}) {
    measure_shm(context, {kind, 2, 16 * kMiB, 1.3});
  }
}

// On a separate stream the operation runs on the thread of that stream: two more threads than cores.
TESSERA_BENCH(shm_async) {
  const std::string name = "shm_all_reduce_async_1KiB";
  if (!context.wants(name)) return;
  RankTeam team(
      2,
      [] {
        const auto buffers = std::make_shared<Buffers>(kKiB);
        return [buffers, side = buffers->host.create_stream(), group = world()] {
          group.all_reduce(buffers->in.data(), buffers->out.data(), 256, DType::kF32, {}, side).wait();
        };
      },
      /*is_bound=*/false);
  (void)team.run(100);
  context.measure({.name = name, .unit = "us", .ours = [&]() -> double { return team.run(500) / 1000; }});
}

// Four threads; each byte of each input is read once, and each byte of each output is written once.
TESSERA_BENCH(thread_all_reduce) {
  const std::string name = "thread_all_reduce_w4_64MiB";
  if (!context.wants(name)) return;
  constexpr std::size_t kBytes = 64 * kMiB;
  std::vector<std::byte> from(kBytes);
  std::vector<std::byte> to(kBytes);
  context.measure(
      {.name = name,
       .unit = "us",
       .ours = [&]() -> double {
         double took = 0;
         simulate(4, [&] {
           const Buffers buffers(kBytes);
           const ProcessGroup group = world();
           const auto reduce = [&] {
             group.all_reduce(buffers.in.data(), buffers.out.data(), kBytes / 4, DType::kF32, {}, buffers.stream);
           };
           reduce();
           const auto start = std::chrono::steady_clock::now();
           for (int i = 0; i < 3; ++i) reduce();
           if (group.rank() == 0) {
             took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
           }
         });
         return took / 3;
       },
       .reference_name = "4 x 64 MiB copied by all cores",
       .reference = [&]() -> double {
         constexpr int kCores = 2;
         const double ns = bench::run_together(kCores, [&](int core) {
           const std::size_t half = from.size() / kCores;
           for (std::size_t done = 0; done < 4 * kBytes / kCores; done += half) {
             bench::memcpy_reference(to.data() + core * half, from.data() + core * half, half);
           }
         });
         return ns / 1000;
       },
       .must_ratio = 0.5});
}

TESSERA_BENCH(launch_overhead) {
  // A separate rank: the rank of this process stays unused for the drill ranks that are forked from it.
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const Buffers buffers(64);
  const ProcessGroup group = world();
  context.measure(
      {.name = "launch_overhead",
       .unit = "us",
       .ours = [&] { group.all_reduce(buffers.in.data(), buffers.out.data(), 16, DType::kF32, {}, buffers.stream); },
       .must = 1});
}

}  // namespace
}  // namespace tessera::comm
