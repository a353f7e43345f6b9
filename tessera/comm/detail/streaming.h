// Large copies past the caches. A store to memory that is in no cache first reads the line it is about to overwrite,
// and pushes out another; a streaming store does neither. Of sizes that fit into caches the reader finds plain ones
// faster.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::comm::detail {

/// Bytes of a cache line.
inline constexpr std::size_t kLineBytes = 64;
/// From this size on what is written would not stay in the caches until it is read.
inline constexpr std::int64_t kStreamedBytes = std::int64_t{2} << 20;

/// Writes a line to where a line begins.
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
/// Ends a run of streamed lines: what is written after it is seen after them.
inline void end_stream() { _mm_sfence(); }

/// memcpy() that streams what is large.
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
