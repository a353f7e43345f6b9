// Barriers of all ranks inside one kernel, for the bench: the cost of a meeting without a launch.
#include <cstdint>

#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/backends/cuda/protocol.cuh"

// times[0] and times[1]: device time when all had arrived for the first time, and after the last round.
extern "C" __global__ void tessera_comm_barrier_rounds(tessera::comm::cuda::CudaGroupMemory* group,
                                                       tessera::comm::cuda::Control* control, std::int32_t rank,
                                                       std::int32_t size, std::uint64_t first, std::int32_t rounds,
                                                       std::uint64_t deadline_ns, std::uint64_t* times) {
  using namespace tessera::comm::cuda;
  __shared__ Waiter waiter;
  if (threadIdx.x == 0) {
    waiter = {.group = group,
              .control = control,
              .rank = rank,
              .size = size,
              .step = first,
              .task = 0,
              .start_ns = now_ns(),
              .deadline_ns = deadline_ns,
              .registration = 0,
              .extended_base = 0,
              .pool = 0,
              .signal = 0,
              .channel = 0};
  }
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  for (std::int32_t round = 0; round <= rounds; ++round) {
    const std::uint64_t step = first + static_cast<std::uint64_t>(round);
    if (threadIdx.x == 0) store_release(&group->boards[rank].arrived, step);
    bool came = true;
    if (peer < size && peer != rank) came = waiter.wait_for(&group->boards[peer].arrived, step, peer, true);
    if (__syncthreads_and(came) == 0) return;
    if (threadIdx.x == 0 && round == 0) times[0] = now_ns();
  }
  if (threadIdx.x == 0) times[1] = now_ns();
}
