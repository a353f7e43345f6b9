// The kernel that stops a stream until the host releases it. One thread polls a word of pinned memory; the host
// releases it by writing 1 there, or the timeout passes. The loads bypass the L1 cache, and the final status is the
// last write of the kernel: after it is read, both words may be reused.
#include <cstdint>

namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ std::uint32_t load_from_host(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ void store_for_host(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}

}  // namespace

// words[0]: the host writes 1. words[1]: 0 while running, then `released` or `expired`.
extern "C" __global__ void __launch_bounds__(1, 1)
    tessera_hold(std::uint32_t* words, std::uint64_t timeout_ns, std::uint32_t released, std::uint32_t expired) {
  const std::uint64_t start = now_ns();
  while (load_from_host(words) == 0) {
    if (now_ns() - start >= timeout_ns) {
      store_for_host(words + 1, expired);
      return;
    }
    __nanosleep(500);
  }
  store_for_host(words + 1, released);
}
