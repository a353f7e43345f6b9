// The reference for our copies. libc memcpy is not the fastest at every size on every machine, so a plain vector loop
// competes and the faster one is used.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "tessera/base/testing/bench.h"

namespace tessera::bench {
namespace {

using CopyFunction = void (*)(void*, const void*, std::size_t);

void copy_libc(void* to, const void* from, std::size_t nbytes) { std::memcpy(to, from, nbytes); }

// A vector without alignment.
template <class Vector>
struct [[gnu::packed, gnu::may_alias]] Unaligned {
  Vector value;
};

// One body for all vector widths. The empty asm keeps the compiler from replacing the loop by a call to memcpy.
template <class Vector>
[[gnu::always_inline]] inline void copy_by(void* to, const void* from, std::size_t nbytes) {
  constexpr std::size_t kStep = 4 * sizeof(Vector);
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  for (; nbytes >= kStep; nbytes -= kStep, in += kStep, out += kStep) {
    const auto* source = reinterpret_cast<const Unaligned<Vector>*>(in);
    auto* target = reinterpret_cast<Unaligned<Vector>*>(out);
    const Vector a = source[0].value;
    const Vector b = source[1].value;
    const Vector c = source[2].value;
    const Vector d = source[3].value;
    target[0].value = a;
    target[1].value = b;
    target[2].value = c;
    target[3].value = d;
    asm volatile("" : : : "memory");
  }
  for (; nbytes > 0; --nbytes) {
    *out++ = *in++;
    asm volatile("" : : : "memory");
  }
}

using Bytes16 = unsigned char __attribute__((vector_size(16)));
void copy_vector(void* to, const void* from, std::size_t nbytes) { copy_by<Bytes16>(to, from, nbytes); }

#ifdef __x86_64__
using Bytes32 = unsigned char __attribute__((vector_size(32)));
[[gnu::target("avx2")]] void copy_wide_vector(void* to, const void* from, std::size_t nbytes) {
  copy_by<Bytes32>(to, from, nbytes);
}
#endif

CopyFunction vector_copy() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return copy_wide_vector;
#endif
  return copy_vector;
}

// Copies are repeatable, so the measurement uses the buffers of the caller, with their pages and caches.
CopyFunction better_copy(void* to, const void* from, std::size_t nbytes) {
  using Clock = std::chrono::steady_clock;
  const CopyFunction candidates[2] = {copy_libc, vector_copy()};
  Clock::duration best[2] = {Clock::duration::max(), Clock::duration::max()};
  const std::size_t calls =
      std::clamp<std::size_t>((std::size_t{1} << 20) / std::max<std::size_t>(nbytes, 1), 1, 10000);
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 2; ++i) {
      const auto start = Clock::now();
      for (std::size_t call = 0; call < calls; ++call) candidates[i](to, from, nbytes);
      best[i] = std::min(best[i], Clock::now() - start);
    }
  }
  return candidates[best[1] < best[0] ? 1 : 0];
}

// Measured once per size: a new thread does not choose again during a measurement.
CopyFunction chosen_copy(void* to, const void* from, std::size_t nbytes) {
  static std::mutex mutex;
  static std::map<std::size_t, CopyFunction> chosen;
  const std::lock_guard lock(mutex);
  CopyFunction& copy = chosen[nbytes];
  if (copy == nullptr) copy = better_copy(to, from, nbytes);
  return copy;
}

struct Choice {
  std::size_t nbytes = SIZE_MAX;
  CopyFunction copy = copy_libc;
};

}  // namespace

void memcpy_reference(void* to, const void* from, std::size_t nbytes) {
  thread_local Choice choice;
  if (choice.nbytes != nbytes) choice = {nbytes, chosen_copy(to, from, nbytes)};
  choice.copy(to, from, nbytes);
}

}  // namespace tessera::bench
