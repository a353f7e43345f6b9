// Stores that bypass the caches, for data that exceeds the caches and is not read again soon. A plain store to uncached
// memory first reads the line that it overwrites, and evicts another line; a streaming store does neither, which makes
// a large copy almost twice as fast as that of libc. Internal to the library. On processors without SSE2, all functions
// use plain stores.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tessera::detail {

/// Bytes per cache line.
inline constexpr std::size_t kLineNbytes = 64;

/// Sixteen bytes in a vector register. Any vector of this size converts to it by a cast.
using StreamedBytes [[gnu::vector_size(16)]] = char;

/// Streams sixteen bytes to an address that is a multiple of 16.
inline void stream_bytes(void* to, StreamedBytes bytes) {
#ifdef __SSE2__
  _mm_stream_si128(static_cast<__m128i*>(to), __m128i(bytes));
#else
  std::memcpy(to, &bytes, sizeof bytes);
#endif
}

/// Ends a sequence of streamed bytes: later stores of this thread become visible after them.
inline void end_stream() {
#ifdef __SSE2__
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Copies bytes that do not overlap. From `min_nbytes` on, the copy streams and ends with end_stream(); smaller copies
/// use memcpy. Addresses need no alignment.
void streaming_copy(void* to, const void* from, std::size_t nbytes, std::size_t min_nbytes = std::size_t{1} << 20);

}  // namespace tessera::detail
