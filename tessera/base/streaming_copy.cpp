#include "tessera/base/streaming_copy.h"

#include <cstdint>

namespace tessera::detail {

void streaming_copy(void* to, const void* from, std::size_t nbytes, std::size_t min_nbytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  if (nbytes >= min_nbytes && nbytes >= kLineNbytes) {
    const std::size_t head = (kLineNbytes - reinterpret_cast<std::uintptr_t>(out) % kLineNbytes) % kLineNbytes;
    std::memcpy(out, in, head);
    out += head;
    in += head;
    nbytes -= head;
    for (; nbytes >= kLineNbytes; nbytes -= kLineNbytes, out += kLineNbytes, in += kLineNbytes) {
      // All loads come before the stores, so that the stores fill one line at a time.
      StreamedBytes a;
      StreamedBytes b;
      StreamedBytes c;
      StreamedBytes d;
      std::memcpy(&a, in, sizeof a);
      std::memcpy(&b, in + 16, sizeof b);
      std::memcpy(&c, in + 32, sizeof c);
      std::memcpy(&d, in + 48, sizeof d);
      stream_bytes(out, a);
      stream_bytes(out + 16, b);
      stream_bytes(out + 32, c);
      stream_bytes(out + 48, d);
    }
    end_stream();
  }
  if (nbytes != 0) std::memcpy(out, in, nbytes);
}

}  // namespace tessera::detail
