#include "tessera/memory/upstream.h"

namespace tessera::memory {

std::byte* ExpandableUpstream::allocate(std::size_t nbytes) {
  std::byte* const address = reserve(nbytes);
  try {
    map(address, nbytes);
  } catch (...) {
    release(address, nbytes);
    throw;
  }
  return address;
}

void ExpandableUpstream::free(std::byte* address, std::size_t nbytes) {
  unmap(address, nbytes);
  release(address, nbytes);
}

}  // namespace tessera::memory
