// Memory of small objects that come and go with every call: kept by the thread that lets go of it and handed out again
// there. A long run of frees, as at the end of a backward run, costs malloc a walk through its bins for each.
#pragma once

#include <cstddef>

#include "tessera/base/export.h"

namespace tessera::tensor::detail {

/// Base of such objects, which are deleted as what they are or have a virtual destructor. Sanitized builds keep
/// nothing, so that a use after the end is seen.
class TESSERA_API Recycled {
 public:
  static void* operator new(std::size_t size);
  static void operator delete(void* block, std::size_t size) noexcept;

 protected:
  ~Recycled() = default;
};

}  // namespace tessera::tensor::detail
