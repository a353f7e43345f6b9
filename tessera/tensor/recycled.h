// Memory of small objects that are created and deleted in every call. The thread that deletes
// an object keeps its memory and reuses it. With malloc, a long series of frees, as at the end
// of a backward pass, walks through its bins for each free.
#pragma once

#include <cstddef>

#include "tessera/base/export.h"

namespace tessera::tensor::detail {

/// Base of such objects, which are deleted by their exact type or have a virtual destructor. Sanitizer builds keep no
/// memory, so that a use after free is detected.
class TESSERA_API Recycled {
 public:
  static void* operator new(std::size_t size);
  static void operator delete(void* block, std::size_t size) noexcept;

 protected:
  ~Recycled() = default;
};

}  // namespace tessera::tensor::detail
