// The size from which transfers and reductions of the host bypass the caches (base/streaming_copy.h). For sizes that
// fit into the caches, plain stores are faster, because the reader finds the data there.
#pragma once

#include <cstddef>

#include "tessera/base/streaming_copy.h"

namespace tessera::comm::detail {

/// Minimum size for streaming: larger data would be evicted from the caches before it is read.
inline constexpr std::size_t kStreamedNbytes = std::size_t{2} << 20;

/// Copies like memcpy(), with streaming stores for large sizes.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t nbytes) {
  tessera::detail::streaming_copy(to, from, nbytes, kStreamedNbytes);
}

}  // namespace tessera::comm::detail
