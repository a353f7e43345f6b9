// How kernels of a group meet and part. Every waiting loop here ends: the group's verdict ends it. One block of each
// rank (the one that looks around) writes the verdict if the deadline passes, a host aborts or a rank has left. Nothing
// traps: a kernel whose group has ended writes that to its cell and returns.
//
// Memory order: a thread that raises a word by store_release() publishes all that its block wrote before the last
// __syncthreads(). Threads after the next __syncthreads() of a thread that saw it by load_acquire() see these writes.
#pragma once

#include <cstdint>

#include "tessera/comm/backends/cuda/group_layout.h"

namespace tessera::comm::cuda {

__device__ inline std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline std::uint32_t load_acquire(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}
__device__ inline void store_release(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
/// A sequentially consistent fence. If two threads each store, fence and load the other's word, at least one of them
/// sees the other's store.
__device__ inline void fence_in_one_order() { asm volatile("fence.sc.gpu;" : : : "memory"); }

// Access to words of pinned memory.
__device__ inline std::uint64_t load_from_host(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_for_host(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}

__device__ inline std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Waits until the previous work has completed, for work launched to overlap it.
__device__ inline void wait_for_stream() { asm volatile("griddepcontrol.wait;" : : : "memory"); }

/// A rank in a step; shared by the threads of a block.
struct Waiter {
  CudaGroupMemory* group;
  Control* control;
  std::int32_t rank;
  std::int32_t size;
  std::uint64_t step;
  std::uint64_t task;
  std::uint64_t start_ns;
  std::uint64_t deadline_ns;
  std::uint64_t registration;   ///< registration of a rendezvous, or 0
  std::uint64_t extended_base;  ///< see Launch and SignalLaunch
  std::uint32_t pool;           ///< number of the pool for signals; 0 for an operation
  std::int32_t signal;          ///< for signals
  std::int32_t channel;         ///< for signals

  __device__ bool is_over() const { return load_acquire(&group->verdict) == kWritten; }

  /// Returns true if this thread must write the verdict: it fills in the details and calls end(). Otherwise the verdict
  /// is written when this returns.
  __device__ bool may_end() const {
    if (atomicCAS(&group->verdict, kOpen, kBeingWritten) == kOpen) return true;
    while (!is_over()) {
    }
    return false;
  }
  __device__ __noinline__ void end(Ending ending, std::uint32_t missing_ranks) const {
    CudaVerdict& verdict = control->verdict;
    verdict.ending = ending;
    verdict.by = rank;
    verdict.missing = missing_ranks;
    verdict.task = task;
    verdict.deadline_ns = deadline_ns;
    verdict.extended_ns = extension();
    verdict.pool = pool;
    verdict.signal = signal;
    verdict.channel = channel;
    for (int other = 0; other < size; ++other) {
      // Word by word; a complete copy would exceed the registers.
      const auto* from = reinterpret_cast<const std::uint64_t*>(&group->notices[other][step % 2]);
      auto* to = reinterpret_cast<std::uint64_t*>(&verdict.notices[other]);
#pragma unroll 1
      for (unsigned word = 0; word < sizeof(CudaNotice) / sizeof(std::uint64_t); ++word) to[word] = from[word];
      if (ending != Ending::kLogs) verdict.tasks[other] = group->boards[other].task;
    }
    __threadfence_system();
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(&verdict.state), "r"(kWritten) : "memory");
    __threadfence_system();
    store_release(&group->verdict, kWritten);
  }

  /// Returns the ranks that have not reached this step, and always `peer`, which is awaited.
  __device__ std::uint32_t missing(int peer) const {
    std::uint32_t ranks = 1U << peer;
    for (int other = 0; other < size; ++other) {
      if (load_acquire(&group->boards[other].arrived) < step) ranks |= 1U << other;
    }
    return ranks;
  }

  /// Returns the extension of this task's deadline in ns.
  __device__ std::uint64_t extension() const {
    const Control::OfRank& own = control->ranks[rank];
    if (extended_base != ~std::uint64_t{0}) return load_from_host(&own.extended_all) - extended_base;
    return pool == 0 && load_from_host(&own.extended_task) == task ? load_from_host(&own.extended_ns) : 0;
  }

  /// Returns true if the wait for `peer` to raise `word` cannot succeed; then ends the group.
  __device__ __noinline__ bool is_vain(const std::uint64_t* word, std::uint64_t least, int peer) const {
    Ending ending = Ending::kDeadline;
    if (load_from_host(&control->aborted) != 0) {
      ending = Ending::kAborted;
    } else if ((load_from_host(&control->left) >> peer & 1) != 0) {
      if (load_acquire(word) >= least) return false;
      ending = Ending::kLeft;
    } else if (registration != 0 && load_from_host(&control->ranks[peer].passed) >= registration) {
      if (load_acquire(word) >= least) return false;
      ending = Ending::kPassed;
    } else {
      if (deadline_ns == ~std::uint64_t{0}) return false;
      const std::uint64_t passed = now_ns() - start_ns;
      if (passed <= deadline_ns || passed - deadline_ns <= extension()) return false;
    }
    if (!may_end()) return true;
    control->verdict.peer = peer;
    control->verdict.numbers[0] = static_cast<std::int64_t>(least);
    control->verdict.numbers[1] = static_cast<std::int64_t>(load_acquire(word));
    end(ending, ending == Ending::kDeadline && pool == 0 ? missing(peer) : 1U << peer);
    return true;
  }

  /// Waits until `peer` has raised `word`. Returns false if the group has ended. If `looks_around`, checks the deadline
  /// and polls the hosts.
  __device__ bool wait_for(const std::uint64_t* word, std::uint64_t least, int peer, bool looks_around) const {
    for (std::uint32_t polls = 1;; ++polls) {
      if (load_acquire(word) >= least) return true;
      if (polls % 8 == 0 && is_over()) return false;
      if (polls % 64 != 0) continue;
      if (looks_around && is_vain(word, least, peer)) return false;
      if (polls > 1024) __nanosleep(200);
    }
  }

  /// Waits until `peer` no longer accesses memory of others: it has finished this step, or the group has ended before
  /// it arrived. A rank that arrives later sees the verdict and accesses nothing.
  __device__ void wait_until_parted(int peer) const {
    constexpr std::uint64_t kBoundNs = 2'000'000'000;  // a peer takes no longer than its transfers
    const CudaBoard& board = group->boards[peer];
    if (wait_for(&board.finished, step, peer, true)) return;
    fence_in_one_order();
    const std::uint64_t since = now_ns();
    while (load_acquire(&board.finished) < step && load_acquire(&board.arrived) >= step) {
      if (now_ns() - since > kBoundNs) return;
    }
  }
};

}  // namespace tessera::comm::cuda
