// The library for f32 products: oneDNN, called on one thread at a time. It picks its kernels by the instructions
// that the processor announces. Before its first use, instructions that need permission from the kernel (AMX) are tried
// (base/amx.h) and switched off if they fail: a processor may announce them where they raise SIGILL.
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
/// Ways to multiply bf16 matrices.
enum class Bf16Products : std::uint8_t {
  kAmx,       ///< tiles of AMX, by oneDNN
  kAvx512,    ///< AVX512_BF16, by oneDNN
  kConverted  ///< f32 products of converted operands
};
/// Returns the way that this process uses: AMX if it works, AVX512_BF16 on AMD processors (twice the speed of f32), or
/// f32. Intel processors have half the units for AVX512_BF16, and a step took 1.4 times as long with it.
Bf16Products bf16_products();
/// The rule of bf16_products(). Arguments: oneDNN may use AMX and it works; AVX512_BF16 is the best that oneDNN uses.
Bf16Products choose_bf16_products(bool has_amx, bool has_avx512_bf16, bool is_amd);
/// Returns true if oneDNN multiplies bf16 faster than f32.
bool has_fast_bf16();

}  // namespace tessera::ops::detail
