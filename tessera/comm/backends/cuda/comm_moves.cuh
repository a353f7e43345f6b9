// One kernel an operation: announces it, meets the peers, makes this rank's moves and parts (protocol.cuh). All blocks
// of a rank meet the peers by themselves, and make all moves together; the last one to end parts for the rank, so that
// the kernel ends when every peer has let go of this rank's buffers.
//
// A kernel for each type and kind of fold, so that each has the registers it needs, and one for copies alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/comm/backends/cuda/folds.cuh"
#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/backends/cuda/protocol.cuh"

namespace tessera::comm::cuda::moves {

inline constexpr int kEveryone = -1;
inline constexpr std::int64_t kOffered = -1;

// What the threads of a block know together.
struct Block {
  Waiter waiter;
  bool is_over;
  bool is_last;  // of its kernel to end
  const std::byte* in[kMostRanks];
  std::byte* out[kMostRanks];
  MoveRow rows[kMostRanks];
};

__device__ inline void begin(const Launch& launch, Block& block) {
  wait_for_stream();
  if (threadIdx.x == 0) {
    // Raised by the last block of a kernel alone, when all others have read them.
    const Counters& counters = launch.group->counters[launch.rank];
    block.waiter = {.group = launch.group,
                    .control = launch.control,
                    .rank = launch.rank,
                    .size = launch.size,
                    .step = counters.step + 1,
                    .task = counters.task + (launch.is_first ? 1 : 0),
                    .start_ns = now_ns(),
                    .deadline_ns = launch.deadline_ns};
    block.is_over = load_acquire(&launch.group->verdict) == kWritten;
    if (blockIdx.x == 0) {
      store_for_host(&launch.control->ranks[launch.rank].begun, block.waiter.task);
      if (launch.cell != nullptr && launch.is_first) {
        store_for_host(&launch.cell->began_ns, block.waiter.start_ns);
        store_for_host(&launch.cell->sequence, block.waiter.task);
      }
    }
  }
  __syncthreads();
}

// What this rank tells `peer`; false: it makes no sense, and the group has ended.
__device__ inline bool write_offer(const Launch& launch, const Block& block, int peer) {
  Offer offer = launch.offers[peer];
  if (launch.row_offsets != nullptr) {
    const std::int64_t first = launch.row_offsets[peer];
    const std::int64_t size = launch.row_sizes[peer];
    if (size < 0 || first < 0 || size > launch.in_rows || first > launch.in_rows - size) {
      if (block.waiter.may_end()) {
        Verdict& verdict = launch.control->verdict;
        verdict.peer = peer;
        verdict.numbers[0] = first;
        verdict.numbers[1] = size;
        verdict.numbers[2] = launch.in_rows;
        block.waiter.end(Ending::kRows, 1U << launch.rank);
      }
      return false;
    }
    const std::int64_t to = launch.row_out_offsets[peer];
    // A place that is far out must not come back by overflow.
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const bool is_near = to >= 0 && to < kFar;
    offer = {first * launch.row_count, is_near ? to * launch.row_count : -1, size * launch.row_count};
  }
  launch.group->offers[launch.rank][block.waiter.step % 2][peer] = offer;
  return true;
}

// Block 0: says what this rank does, and puts a small input into the stage.
__device__ inline bool announce(const Launch& launch, Block& block) {
  GroupMemory& group = *launch.group;
  const auto turn = block.waiter.step % 2;
  bool is_well = true;
  if (launch.has_offers && threadIdx.x < launch.size) is_well = write_offer(launch, block, threadIdx.x);
  if (launch.is_staged) {
    copy_bytes(group.stages[launch.rank][turn], launch.notice.in, launch.in_nbytes, threadIdx.x, blockDim.x);
  }
  if (threadIdx.x == 0) {
    Notice notice = launch.notice;
    notice.task = block.waiter.task;
    group.notices[launch.rank][turn] = notice;
    group.boards[launch.rank].task = block.waiter.task;
  }
  if (__syncthreads_and(is_well) == 0) return false;
  if (threadIdx.x == 0) store_release(&group.boards[launch.rank].arrived, block.waiter.step);
  return true;
}

__device__ inline bool agrees(const Launch& launch, const Block& block, const Notice& other) {
  const bool registers_alike = other.registrations == launch.notice.registrations || other.registrations == 0 ||
                               launch.notice.registrations == 0;
  return other.fingerprint_low == launch.notice.fingerprint_low &&
         other.fingerprint_high == launch.notice.fingerprint_high && other.task == block.waiter.task && registers_alike;
}

// Waits for all peers and compares what they do.
__device__ inline bool meet(const Launch& launch, Block& block) {
  bool is_well = true;
  if (threadIdx.x < launch.size) {
    const int peer = threadIdx.x;
    const bool looks_around = blockIdx.x == 0;
    const auto turn = block.waiter.step % 2;
    is_well = block.waiter.wait_for(&launch.group->boards[peer].arrived, block.waiter.step, peer, looks_around);
    if (is_well) {
      const Notice& notice = launch.group->notices[peer][turn];
      if (!agrees(launch, block, notice)) {
        // The words of it need what all others do.
        for (int other = 0; other < launch.size && is_well; ++other) {
          is_well = block.waiter.wait_for(&launch.group->boards[other].arrived, block.waiter.step, other, looks_around);
        }
        if (is_well && block.waiter.may_end()) block.waiter.end(Ending::kMismatch, 0);
        is_well = false;
      }
      block.in[peer] = launch.is_staged ? launch.group->stages[peer][turn] : notice.in;
      block.out[peer] = launch.is_staged && peer != launch.rank ? nullptr : notice.out;
    }
  }
  return __syncthreads_and(is_well) != 0;
}

// Fills in what peers offer, and sees that it fits.
__device__ inline bool resolve_rows(const Launch& launch, Block& block) {
  bool is_well = true;
  if (threadIdx.x < launch.row_total) {
    MoveRow row = launch.rows[threadIdx.x];
    if (row.from_offset == kOffered) {
      const Offer& offer = launch.group->offers[row.from][block.waiter.step % 2][launch.rank];
      const std::int64_t asked = row.count;
      row.from_offset = offer.from_offset;
      if (row.to_offset == kOffered) row.to_offset = offer.to_offset;
      if (row.count == kOffered) row.count = offer.count;
      const bool fits =
          row.to_offset >= 0 && row.count >= 0 && row.count <= launch.room && row.to_offset <= launch.room - row.count;
      if (row.count != offer.count || !fits) {
        if (block.waiter.may_end()) {
          Verdict& verdict = launch.control->verdict;
          verdict.peer = row.from;
          verdict.numbers[0] = offer.count;
          verdict.numbers[1] = asked;
          verdict.numbers[2] = row.to_offset;
          verdict.numbers[3] = launch.room;
          block.waiter.end(Ending::kOffer, 1U << row.from);
        }
        is_well = false;
      }
    }
    block.rows[threadIdx.x] = row;
  }
  return __syncthreads_and(is_well) != 0;
}

// Peers' buffers may be touched from here on, unless the group has ended: who then lets go of its buffers has seen that
// this rank has arrived, and waits for it.
__device__ inline bool may_reach(const Launch& launch) {
  bool is_open = true;
  if (threadIdx.x == 0) {
    fence_in_one_order();
    is_open = load_acquire(&launch.group->verdict) != kWritten;
  }
  return __syncthreads_and(is_open) != 0;
}

// T is void where bytes are copied as they are.
template <class T, Fold kFold>
__device__ void make_moves(const Launch& launch, const Block& block) {
  const auto item = static_cast<std::int64_t>(launch.item_nbytes);
  __shared__ const std::byte* in[kMostRanks];
  __shared__ std::byte* out[kMostRanks];
  __shared__ int outputs;
  for (int i = 0; i < launch.row_total; ++i) {
    const MoveRow& row = block.rows[i];
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

// The last block of the kernel goes on alone: what the others have written is behind it.
__device__ inline bool is_last_block(const Launch& launch, Block& block) {
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

__device__ inline void end(const Launch& launch, const Block& block, bool is_well) {
  GroupMemory& group = *launch.group;
  // Not when the group had ended before: then nobody waits for this rank, nor it for anybody.
  const bool came = load_acquire(&group.boards[launch.rank].arrived) >= block.waiter.step;
  if (threadIdx.x == 0) {
    Counters& counters = group.counters[launch.rank];
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
__device__ void run(const Launch& launch) {
  __shared__ Block block;
  begin(launch, block);
  bool is_well = !block.is_over;
  if (is_well && blockIdx.x == 0) is_well = announce(launch, block);
  is_well = is_well && meet(launch, block) && resolve_rows(launch, block);
  if (is_well && launch.parts) is_well = may_reach(launch);
  if (is_well) make_moves<T, kFold>(launch, block);
  if (is_last_block(launch, block)) end(launch, block, is_well);
}

}  // namespace tessera::comm::cuda::moves

/// The kernel tessera_comm_<name>.
#define TESSERA_COMM_KERNEL(name, type, fold)                                                                   \
  extern "C" __global__ void __launch_bounds__(tessera::comm::cuda::kThreads, tessera::comm::cuda::kBlocksEach) \
      tessera_comm_##name(const __grid_constant__ tessera::comm::cuda::Launch launch) {                         \
    tessera::comm::cuda::moves::run<type, tessera::comm::cuda::Fold::fold>(launch);                             \
  }
