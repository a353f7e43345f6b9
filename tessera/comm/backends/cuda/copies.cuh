// Copies by many threads, in items as wide as the addresses allow. Loads bypass the L1 cache, since peers write the
// data while the kernel runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::comm::cuda {

/// Returns the index of this thread in the grid.
__device__ inline std::int64_t grid_thread() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t grid_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

__device__ inline std::uintptr_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

namespace copies {

/// Copies in items of type W; both addresses must have the same offset from its alignment.
template <class W>
__device__ void copy_wide(std::byte* to, const std::byte* from, std::int64_t nbytes, std::int64_t thread,
                          std::int64_t threads) {
  constexpr int kAhead = 4;
  constexpr auto kWide = static_cast<std::int64_t>(sizeof(W));
  const auto over = static_cast<std::int64_t>(address_of(to) % sizeof(W));
  const std::int64_t to_boundary = over == 0 ? 0 : kWide - over;
  const std::int64_t head = to_boundary < nbytes ? to_boundary : nbytes;
  const std::int64_t items = (nbytes - head) / kWide;
#pragma unroll 1
  for (std::int64_t at = thread; at < items; at += threads * kAhead) {
    const W* source = reinterpret_cast<const W*>(from + head) + at;
    W* target = reinterpret_cast<W*>(to + head) + at;
    W item[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (at + i * threads < items) item[i] = __ldcg(source + i * threads);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (at + i * threads < items) target[i * threads] = item[i];
    }
  }
  // Both ends have fewer bytes than an item: one thread per byte.
  const std::int64_t tail = head + items * kWide;
  const auto copy_byte = [&](std::int64_t at) {
    reinterpret_cast<char*>(to)[at] = __ldcg(reinterpret_cast<const char*>(from) + at);
  };
  if (thread < head) copy_byte(thread);
  if (thread < nbytes - tail) copy_byte(tail + thread);
}

}  // namespace copies

/// Copies with threads [thread, threads), in items as wide as both addresses allow.
__device__ inline void copy_bytes(std::byte* to, const std::byte* from, std::int64_t nbytes, std::int64_t thread,
                                  std::int64_t threads) {
  const std::uintptr_t apart = address_of(to) ^ address_of(from);
  if (apart % 16 == 0) {
    copies::copy_wide<uint4>(to, from, nbytes, thread, threads);
  } else if (apart % 4 == 0) {
    copies::copy_wide<std::uint32_t>(to, from, nbytes, thread, threads);
  } else {
    copies::copy_wide<std::uint8_t>(to, from, nbytes, thread, threads);
  }
}

}  // namespace tessera::comm::cuda
