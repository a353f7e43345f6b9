// Copies large data with streaming stores. A plain store to uncached memory first reads the line that it overwrites,
// and evicts another line; a streaming store does neither. For sizes that fit into the caches, plain stores are faster,
// because the reader finds the data there.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::comm::detail {

/// Bytes per cache line.
inline constexpr std::size_t kLineBytes = 64;
/// Minimum size for streaming: larger data would be evicted from the caches before it is read.
inline constexpr std::int64_t kStreamedBytes = std::int64_t{2} << 20;

/// Writes a cache line to an aligned address.
inline void stream_line(void* to, const void* from) {
  const auto* source = static_cast<const __m128i*>(from);
  auto* target = static_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(source);
  const __m128i b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2);
  const __m128i d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}
/// Ends a sequence of streamed lines: later stores become visible after them.
inline void end_stream() { _mm_sfence(); }

/// Copies like memcpy(), with streaming stores for large sizes.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t nbytes) {
  if (nbytes < static_cast<std::size_t>(kStreamedBytes)) {
    std::memcpy(to, from, nbytes);
    return;
  }
  const std::size_t head = (kLineBytes - reinterpret_cast<std::uintptr_t>(to) % kLineBytes) % kLineBytes;
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLineBytes <= nbytes; at += kLineBytes) stream_line(to + at, from + at);
  end_stream();
  std::memcpy(to + at, from + at, nbytes - at);
}

}  // namespace tessera::comm::detail
