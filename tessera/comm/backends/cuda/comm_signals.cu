// Signals of symmetric memory (symmetric_backend.h) on the device: each is a kernel of one warp, with a thread per
// peer. A put is a store to the peer's pad after all earlier work of the stream; a wait counts on the own pad.
#include <cstdint>

#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/backends/cuda/protocol.cuh"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::cuda {
namespace {

__device__ SignalLine& line_of(const SignalLaunch& launch, int owner, int from) {
  return launch.pads[owner][static_cast<std::int64_t>(launch.channel) * launch.size + from];
}

// Each counter of a line is incremented by one rank only, in the order of its streams.
__device__ void put(const SignalLaunch& launch, int peer) {
  SignalLine& line = line_of(launch, peer, launch.rank);
  const std::uint64_t number = load_acquire(&line.arrived) + 1;
  line.log = launch.log == 0 ? 0 : number << kLogBits | launch.log;
  store_release(&line.arrived, number);
}

// Returns the log of the peer's barrier, or that of this rank if the peer sent none; all ones if the group has ended.
__device__ std::uint64_t wait(const SignalLaunch& launch, const Waiter& waiter, int peer) {
  SignalLine& line = line_of(launch, launch.rank, peer);
  const std::uint64_t number = line.awaited + 1;
  line.awaited = number;
  if (!waiter.wait_for(&line.arrived, number, peer, true)) return ~std::uint64_t{0};
  const std::uint64_t said = load_acquire(&line.log);
  const bool is_of_this = said != 0 && said >> kLogBits == (number << kLogBits) >> kLogBits;
  return is_of_this ? said & ((std::uint64_t{1} << kLogBits) - 1) : launch.log;
}

__device__ void run(const SignalLaunch& launch) {
  __shared__ Waiter waiter;
  __shared__ std::uint64_t logs[kMaxRanks];
  wait_for_stream();
  if (threadIdx.x == 0) {
    waiter = {.group = launch.group,
              .control = launch.control,
              .rank = launch.rank,
              .size = launch.size,
              .step = 0,
              .task = 0,
              .start_ns = now_ns(),
              .deadline_ns = launch.deadline_ns,
              .registration = 0,
              .extended_base = launch.extended_base,
              .pool = launch.pool,
              .signal = launch.kind,
              .channel = launch.channel};
  }
  __syncthreads();
  const bool is_open = !waiter.is_over();
  const int peer = static_cast<int>(threadIdx.x);
  const bool is_barrier = launch.kind == static_cast<std::int32_t>(Signal::Kind::kBarrier);
  const bool is_meant = is_barrier ? peer < launch.size && peer != launch.rank : peer == launch.peer;
  if (is_open && is_meant && launch.kind != static_cast<std::int32_t>(Signal::Kind::kWait)) put(launch, peer);
  if (peer < launch.size) logs[peer] = launch.log;
  if (is_open && is_meant && launch.kind != static_cast<std::int32_t>(Signal::Kind::kPut)) {
    logs[peer] = wait(launch, waiter, peer);
  }
  __syncthreads();
  if (threadIdx.x != 0 || !is_barrier || launch.log == 0 || waiter.is_over()) return;
  bool differs = false;
  for (int other = 0; other < launch.size; ++other) differs |= logs[other] != launch.log;
  if (!differs || !waiter.may_end()) return;
  for (int other = 0; other < launch.size; ++other) launch.control->verdict.tasks[other] = logs[other];
  waiter.end(Ending::kLogs, 0);
}

}  // namespace
}  // namespace tessera::comm::cuda

extern "C" __global__ void __launch_bounds__(32)
    tessera_comm_signal(const __grid_constant__ tessera::comm::cuda::SignalLaunch launch) {
  tessera::comm::cuda::run(launch);
}
