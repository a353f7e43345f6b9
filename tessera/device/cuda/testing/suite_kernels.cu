// The kernels of the device suite. The suite defines names and arguments; the host equivalents are in
// host_suite_test.cpp.
#include <cstdint>

namespace {
__device__ std::uint64_t now_nanoseconds() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
}  // namespace

extern "C" {

__global__ void fill_ints(int* to, int count, int value) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] = value;
}

__global__ void add_ints(int* to, int count, int value) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] += value;
}

__global__ void copy_ints(int* to, const int* from, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] = from[i];
}

__global__ void slow_add_ints(int* to, int count, int value, std::uint64_t busy_nanoseconds) {
  const std::uint64_t end = now_nanoseconds() + busy_nanoseconds;
  while (now_nanoseconds() < end) __nanosleep(1000);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] += value;
}

// Each thread of the grid writes its own number, from 1.
__global__ void mark_grid(int* to) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned index = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  to[index] = static_cast<int>(index) + 1;
}

__global__ void spin_until(const std::uint64_t* word, std::uint64_t value) {
  while (*static_cast<const volatile std::uint64_t*>(word) < value) __nanosleep(100);
}

__global__ void fail() { __trap(); }

}  // extern "C"
