// One kernel per operation: it announces the operation, meets the peers, makes this rank's transfers and parts
// (protocol.cuh). Each block of a rank meets the peers separately, and all blocks share the transfers. The last block
// to end parts for the rank, so that the kernel ends after every peer has stopped accessing this rank's buffers.
//
// There is one kernel per type and reduction, so that each has the registers it needs, and one for copies.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/comm/backends/cuda/folds.cuh"
#include "tessera/comm/backends/cuda/meeting.cuh"

namespace tessera::comm::cuda::transfers {

// T is void if bytes are only copied.
template <class T, Fold kFold>
__device__ void make_transfers(const CudaLaunch& launch, const Block& block) {
  const auto item = static_cast<std::int64_t>(launch.item_nbytes);
  __shared__ const std::byte* in[kMaxRanks];
  __shared__ std::byte* out[kMaxRanks];
  __shared__ int outputs;
  for (int i = 0; i < launch.row_total; ++i) {
    const TransferRow& row = block.rows[i];
    if (row.count == 0) continue;
    __syncthreads();
    if (threadIdx.x == 0) {
      outputs = 0;
      for (int rank = 0; rank < launch.size; ++rank) {
        if (block.out[rank] == nullptr || (row.to != kEveryone && row.to != rank)) continue;
        out[outputs++] = block.out[rank] + row.to_offset * item;
      }
    }
    if (threadIdx.x < launch.size) in[threadIdx.x] = block.in[threadIdx.x] + row.from_offset * item;
    __syncthreads();
    if constexpr (std::is_void_v<T>) {
      const std::byte* from = in[row.from];
      for (int k = 0; k < outputs; ++k) {
        if (out[k] != from) copy_bytes(out[k], from, row.count * item, grid_thread(), grid_threads());
      }
    } else {
      const auto count = row.count * (item / static_cast<std::int64_t>(sizeof(T)));
      fold<T, kFold>(launch.factor, {in, launch.size, out, outputs}, count);
    }
  }
}

// Returns true in the last block of the kernel, which continues alone and sees all writes of the others.
__device__ inline bool is_last_block(const CudaLaunch& launch, Block& block) {
  __syncthreads();
  if (gridDim.x == 1) return true;
  if (threadIdx.x == 0) {
    __threadfence();
    block.is_last = atomicAdd(&launch.group->counters[launch.rank].blocks_ended, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return block.is_last;
}

__device__ inline void end(const CudaLaunch& launch, const Block& block, bool is_well) {
  CudaGroupMemory& group = *launch.group;
  // Skipped if the group had ended before: then no rank waits for this rank, nor this rank for others.
  const bool came = load_acquire(&group.boards[launch.rank].arrived) >= block.waiter.step;
  if (threadIdx.x == 0) {
    CudaCounters& counters = group.counters[launch.rank];
    counters.blocks_ended = 0;
    counters.task = block.waiter.task;
    if (came) {
      counters.step = block.waiter.step;
      store_release(&group.boards[launch.rank].finished, block.waiter.step);
    }
  }
  if (launch.parts && came) {
    if (threadIdx.x < launch.size) block.waiter.wait_until_parted(threadIdx.x);
    __syncthreads();
    // A rank that gave up did so after the verdict and before it parted.
    is_well = load_acquire(&group.verdict) != kWritten;
  }
  if (threadIdx.x != 0 || launch.cell == nullptr || !launch.is_last) return;
  store_for_host(&launch.cell->ended_ns, now_ns());
  store_for_host(&launch.cell->result, is_well ? Cell::kWell : Cell::kFailed);
}

template <class T, Fold kFold>
__device__ void run(const CudaLaunch& launch) {
  __shared__ Block block;
  begin(launch, block);
  bool is_well = !block.is_over;
  if (is_well && blockIdx.x == 0) is_well = announce(launch, block);
  is_well = is_well && meet(launch, block) && resolve_rows(launch, block);
  if (is_well && launch.parts) is_well = may_reach(launch);
  if (is_well && !launch.is_ahead) make_transfers<T, kFold>(launch, block);
  if (is_last_block(launch, block)) end(launch, block, is_well);
}

}  // namespace tessera::comm::cuda::transfers

/// The kernel tessera_comm_<name>.
#define TESSERA_COMM_KERNEL(name, type, fold)                                                                   \
  extern "C" __global__ void __launch_bounds__(tessera::comm::cuda::kThreads, tessera::comm::cuda::kBlocksEach) \
      tessera_comm_##name(const __grid_constant__ tessera::comm::cuda::CudaLaunch launch) {                     \
    tessera::comm::cuda::transfers::run<type, tessera::comm::cuda::Fold::fold>(launch);                         \
  }
