#include "tessera/tensor/detail/streaming_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tessera::tensor::detail {

#ifdef __SSE2__
namespace {

constexpr std::size_t kMinNbytes = std::size_t{1} << 20;
constexpr std::size_t kLine = 64;

}  // namespace

void streaming_copy(void* to, const void* from, std::size_t nbytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  if (nbytes >= kMinNbytes) {
    const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine;
    std::memcpy(out, in, head);
    out += head;
    in += head;
    nbytes -= head;
    for (; nbytes >= kLine; nbytes -= kLine, out += kLine, in += kLine) {
      const auto* source = reinterpret_cast<const __m128i*>(in);
      auto* target = reinterpret_cast<__m128i*>(out);
      const __m128i a = _mm_loadu_si128(source);
      const __m128i b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2);
      const __m128i d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();  // makes the copy visible before the caller signals completion
  }
  if (nbytes != 0) std::memcpy(out, in, nbytes);
}
#else
void streaming_copy(void* to, const void* from, std::size_t nbytes) {
  if (nbytes != 0) std::memcpy(to, from, nbytes);
}
#endif

}  // namespace tessera::tensor::detail
