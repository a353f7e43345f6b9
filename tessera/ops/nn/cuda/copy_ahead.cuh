// Copies of 16 bytes from device memory to shared memory that run while the thread continues. A thread sees its own
// copies after it waited for them.
#pragma once

#include <cstdint>

namespace tessera::ops::cuda {

/// Starts to copy 16 bytes.
__device__ inline void copy_ahead(uint4* to, const void* from) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
/// Ends a group of copies, also an empty one.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups of copies except the last `kAhead`.
template <int kAhead>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kAhead) : "memory");
}

}  // namespace tessera::ops::cuda
