// The library behind f32 products: oneDNN, called on one thread at a time. It picks its kernels by the instructions
// that the processor announces. Instructions that need permission from the kernel (AMX) are switched off before its
// first use: a processor may announce them where they raise SIGILL.
//
// Invariant: no signal handler runs while oneDNN computes. Up to version 3.11.1 its f32 kernels point the stack pointer
// at a buffer on the heap for long inner dimensions, so that the frame of a handler overwrites the heap before it.
#pragma once

#include <signal.h>

#include <string>

namespace tessera::ops::detail {

/// While it lives, oneDNN computes on the calling thread alone, and signals from outside wait. Costs two system calls.
class ProductCall {
 public:
  /// Prepares oneDNN on first use.
  ProductCall();
  /// Restores the signals and the number of OpenMP threads of the calling thread.
  ~ProductCall();
  ProductCall(const ProductCall&) = delete;
  ProductCall& operator=(const ProductCall&) = delete;

 private:
  int threads_before_;
  sigset_t signals_before_ = {};
};

/// Returns the name and the version of the library: "oneDNN 2.6.3".
std::string product_library();
/// Returns the instructions that its kernels use: "avx512_core_bf16".
std::string product_instructions();

}  // namespace tessera::ops::detail
