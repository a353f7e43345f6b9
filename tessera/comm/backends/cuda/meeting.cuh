// The first half of an operation's kernel: this rank announces its operation and meets its peers. Each block meets the
// peers separately; one of them announces, checks the deadline and polls the hosts.
#pragma once

#include <cstdint>

#include "tessera/comm/backends/cuda/copies.cuh"
#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/backends/cuda/protocol.cuh"

namespace tessera::comm::cuda::transfers {

inline constexpr int kEveryone = -1;
inline constexpr std::int64_t kOffered = -1;

// State that the threads of a block share.
struct Block {
  Waiter waiter;
  bool is_over;
  bool is_last;  // last block of its kernel to end
  const std::byte* in[kMaxRanks];
  std::byte* out[kMaxRanks];
  TransferRow rows[kMaxRanks];
};

__device__ inline void begin(const CudaLaunch& launch, Block& block) {
  wait_for_stream();
  if (threadIdx.x == 0) {
    // Only the last block of a kernel changes them, after all others have read them.
    const CudaCounters& counters = launch.group->counters[launch.rank];
    block.waiter = {.group = launch.group,
                    .control = launch.control,
                    .rank = launch.rank,
                    .size = launch.size,
                    .step = counters.step + 1,
                    .task = counters.task + (launch.is_first ? 1 : 0),
                    .start_ns = now_ns(),
                    .deadline_ns = launch.deadline_ns,
                    .registration = launch.registration,
                    .extended_base = launch.extended_base,
                    .pool = 0,
                    .signal = 0,
                    .channel = 0};
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

// Writes the offer of this rank to `peer`. Returns false if it is invalid; the group has then ended.
__device__ inline bool write_offer(const CudaLaunch& launch, const Block& block, int peer) {
  CudaOffer offer = launch.offers[peer];
  if (launch.row_offsets != nullptr) {
    const std::int64_t first = launch.row_offsets[peer];
    const std::int64_t size = launch.row_sizes[peer];
    if (size < 0 || first < 0 || size > launch.in_rows || first > launch.in_rows - size) {
      if (block.waiter.may_end()) {
        CudaVerdict& verdict = launch.control->verdict;
        verdict.peer = peer;
        verdict.numbers[0] = first;
        verdict.numbers[1] = size;
        verdict.numbers[2] = launch.in_rows;
        block.waiter.end(Ending::kRows, 1U << launch.rank);
      }
      return false;
    }
    const std::int64_t to = launch.row_out_offsets[peer];
    // A position far out of range must not return into range by overflow.
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const bool is_near = to >= 0 && to < kFar;
    offer = {first * launch.row_count, is_near ? to * launch.row_count : -1, size * launch.row_count};
  }
  launch.group->offers[launch.rank][block.waiter.step % 2][peer] = offer;
  return true;
}

// One word per thread; a complete copy by one thread would exceed the registers.
__device__ inline void write_notice(const CudaLaunch& launch, const Block& block, CudaNotice& to) {
  constexpr unsigned kWords = sizeof(CudaNotice) / sizeof(std::uint64_t);
  const auto* from = reinterpret_cast<const std::uint64_t*>(&launch.notice);
  for (unsigned word = threadIdx.x; word < kWords; word += blockDim.x) {
    const bool is_task = word == offsetof(CudaNotice, task) / sizeof(std::uint64_t);
    reinterpret_cast<std::uint64_t*>(&to)[word] = is_task ? block.waiter.task : from[word];
  }
}

// Block 0: announces the operation of this rank, and copies a small input to the stage.
__device__ inline bool announce(const CudaLaunch& launch, Block& block) {
  CudaGroupMemory& group = *launch.group;
  const auto turn = block.waiter.step % 2;
  write_notice(launch, block, group.notices[launch.rank][turn]);
  if (threadIdx.x == 0) group.boards[launch.rank].task = block.waiter.task;
  bool is_well = true;
  if (launch.has_offers) {
    __syncthreads();  // an invalid offer is reported with the notice
    if (threadIdx.x < launch.size) is_well = write_offer(launch, block, threadIdx.x);
  }
  if (launch.is_staged) {
    copy_bytes(group.stages[launch.rank][turn], launch.notice.in, launch.in_nbytes, threadIdx.x, blockDim.x);
  }
  if (__syncthreads_and(is_well) == 0) return false;
  if (threadIdx.x == 0) store_release(&group.boards[launch.rank].arrived, block.waiter.step);
  return true;
}

__device__ inline bool agrees(const CudaLaunch& launch, const Block& block, const CudaNotice& other) {
  const bool registers_alike = other.registrations == launch.notice.registrations || other.registrations == 0 ||
                               launch.notice.registrations == 0;
  return other.fingerprint_low == launch.notice.fingerprint_low &&
         other.fingerprint_high == launch.notice.fingerprint_high && other.task == block.waiter.task && registers_alike;
}

// Waits for all peers and compares their operations.
__device__ inline bool meet(const CudaLaunch& launch, Block& block) {
  bool is_well = true;
  if (threadIdx.x < launch.size) {
    const int peer = threadIdx.x;
    const bool looks_around = blockIdx.x == 0;
    const auto turn = block.waiter.step % 2;
    is_well = block.waiter.wait_for(&launch.group->boards[peer].arrived, block.waiter.step, peer, looks_around);
    if (is_well) {
      const CudaNotice& notice = launch.group->notices[peer][turn];
      if (!agrees(launch, block, notice)) {
        // The error message needs the notices of all other ranks.
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

// Fills in the offers of peers, and checks that they fit.
__device__ inline bool resolve_rows(const CudaLaunch& launch, Block& block) {
  bool is_well = true;
  if (threadIdx.x < launch.row_total) {
    TransferRow row = launch.rows[threadIdx.x];
    if (row.from_offset == kOffered) {
      const CudaOffer& offer = launch.group->offers[row.from][block.waiter.step % 2][launch.rank];
      const bool is_expected = row.count == kOffered && launch.row_out_sizes != nullptr;
      const std::int64_t asked = is_expected ? launch.row_out_sizes[row.from] * launch.row_count : row.count;
      row.from_offset = offer.from_offset;
      if (row.to_offset == kOffered) row.to_offset = offer.to_offset;
      row.count = asked == kOffered ? offer.count : asked;
      const bool fits =
          row.to_offset >= 0 && row.count >= 0 && row.count <= launch.room && row.to_offset <= launch.room - row.count;
      if (row.count != offer.count || !fits) {
        if (block.waiter.may_end()) {
          CudaVerdict& verdict = launch.control->verdict;
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

// Returns true if peers' buffers may be accessed from here on; false if the group has ended. A rank that then releases
// its buffers has seen that this rank arrived, and waits for it.
__device__ inline bool may_reach(const CudaLaunch& launch) {
  bool is_open = true;
  if (threadIdx.x == 0) {
    fence_in_one_order();
    is_open = load_acquire(&launch.group->verdict) != kWritten;
  }
  return __syncthreads_and(is_open) != 0;
}

}  // namespace tessera::comm::cuda::transfers
