// The work memory of OpenBLAS, given out under a lock. The serial build marks its buffers as taken without one, so that
// two threads that call it at once may pack their matrices into the same buffer and compute with each other's. The
// linker leads its calls here (--wrap, cmake/TesseraOptions.cmake).
#include <mutex>

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming): the linker's
// names
extern "C" {
void* __real_blas_memory_alloc(int position);
void __real_blas_memory_free(void* buffer);
void* __wrap_blas_memory_alloc(int position);
void __wrap_blas_memory_free(void* buffer);
}

namespace {
constinit std::mutex buffers;
}

void* __wrap_blas_memory_alloc(int position) {
  const std::lock_guard lock(buffers);
  return __real_blas_memory_alloc(position);
}

void __wrap_blas_memory_free(void* buffer) {
  const std::lock_guard lock(buffers);
  __real_blas_memory_free(buffer);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
