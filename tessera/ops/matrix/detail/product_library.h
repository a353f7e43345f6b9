// The library behind f32 products: oneDNN, called on one thread at a time. It picks its kernels by the instructions
// that the processor announces. Instructions that need permission from the kernel (AMX) are switched off before its
// first use: a processor may announce them where they raise SIGILL.
//
// Invariant: no signal handler runs while oneDNN computes. Up to version 3.11.1 its f32 kernels point the stack pointer
// at a buffer on the heap for long inner dimensions, so that the frame of a handler overwrites the heap before it.
#pragma once

#include <csignal>

#include <cstdint>
#include <string>

namespace tessera::ops::detail {

/// While it lives, oneDNN computes on the calling thread alone, and signals from outside wait.
class ProductCall {
 public:
  /// Prepares oneDNN on first use. `k`: the inner dimension. Short ones need no protection from signals, which costs
  /// two system calls.
  explicit ProductCall(std::int64_t k);
  /// Restores the signals and the number of OpenMP threads of the calling thread.
  ~ProductCall();
  ProductCall(const ProductCall&) = delete;
  ProductCall& operator=(const ProductCall&) = delete;

 private:
  int threads_before_;
  bool are_signals_blocked_;
  sigset_t signals_before_ = {};
};

/// Returns the name and the version of the library: "oneDNN 2.6.3".
std::string product_library();
/// Returns the instructions that its kernels use: "avx512_core_bf16".
std::string product_instructions();
/// Whether it multiplies bf16 faster than f32. AMD processors with AVX512_BF16 do, at twice the speed; Intel's have
/// half the units for these instructions and took 1.4 times as long.
bool has_fast_bf16();

}  // namespace tessera::ops::detail
