// What collectives cost between processes of this machine and between threads, and what a launch costs at all.
#include <cstdlib>
#include <cstring>

#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/process_group.h"
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

// Two buffers of the device and an operation between them.
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

// About 10 ms of work to a sample.
int times_for(std::size_t nbytes) {
  return static_cast<int>(std::max<std::size_t>(1, 20 * kMiB / (nbytes + 8 * kKiB)));
}

void measure_shm(bench::Context& context, const std::string& name, int ranks, std::size_t nbytes, OpKind kind,
                 const char* is_checked = "0") {
  if (!context.wants(name)) return;
  ::setenv("TESSERA_COMM_CHECK", is_checked, 1);  // for the ranks
  RankTeam team(ranks, [&] {
    const auto buffers = std::make_shared<Buffers>(nbytes);
    Operation op{.kind = kind, .dtype = DType::kF32, .in = buffers->in.data(), .out = buffers->out.data()};
    // The whole of the larger buffer is what the row names.
    op.count = static_cast<std::int64_t>(nbytes / 4) / (kind == OpKind::kAllReduce ? 1 : ranks);
    return [buffers, op, group = world()] { group.launch(op, buffers->stream); };
  });
  const int times = times_for(nbytes);
  (void)team.run(times);
  context.measure({.name = name, .unit = "us", .ours = [&]() -> double { return team.run(times) / 1000; }});
}

TESSERA_BENCH(shm_all_reduce_w2) {
  for (const std::size_t nbytes : {kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB}) {
    measure_shm(context, "shm_all_reduce_w2_" + size_text(nbytes), 2, nbytes, OpKind::kAllReduce);
  }
}

TESSERA_BENCH(shm_all_reduce_checked) {
  measure_shm(context, "shm_all_reduce_w2_1KiB_checked", 2, kKiB, OpKind::kAllReduce, "1");
}

TESSERA_BENCH(shm_all_reduce_w4) {
  for (const std::size_t nbytes : {kKiB, kMiB, 64 * kMiB}) {
    measure_shm(context, "shm_all_reduce_w4_" + size_text(nbytes), 4, nbytes, OpKind::kAllReduce);
  }
}

TESSERA_BENCH(shm_moves_w2) {
  measure_shm(context, "shm_all_gather_w2_16MiB", 2, 16 * kMiB, OpKind::kAllGather);
  measure_shm(context, "shm_reduce_scatter_w2_16MiB", 2, 16 * kMiB, OpKind::kReduceScatter);
  measure_shm(context, "shm_all_to_all_w2_16MiB", 2, 16 * kMiB, OpKind::kAllToAll);
}

// On a stream of its own the operation runs on that stream's thread: two threads more than cores.
TESSERA_BENCH(shm_async) {
  const std::string name = "shm_all_reduce_async_1KiB";
  if (!context.wants(name)) return;
  RankTeam team(2, [] {
    const auto buffers = std::make_shared<Buffers>(kKiB);
    return [buffers, side = buffers->host.create_stream(), group = world()] {
      group.all_reduce(buffers->in.data(), buffers->out.data(), 256, DType::kF32, {}, side).wait();
    };
  });
  (void)team.run(100);
  context.measure({.name = name, .unit = "us", .ours = [&]() -> double { return team.run(500) / 1000; }});
}

// Four threads on this machine's cores; every byte of every input is read once and of every output written once.
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
  // A rank of its own: that of this process stays unused, for the ranks of a drill that are forked from it.
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
