// The library behind f32 products: oneDNN, called on one thread at a time. It picks its kernels by the instructions
// that the processor announces. Instructions that need permission from the kernel (AMX) are switched off before its
// first use: a processor may announce them where they raise SIGILL.
#pragma once

#include <string>

namespace tessera::ops::detail {

/// Makes oneDNN compute on the calling thread alone while it lives. Costs about 5 ns.
class OneThread {
 public:
  /// Prepares oneDNN on first use.
  OneThread();
  /// Restores the number of OpenMP threads of the calling thread.
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Returns the name and the version of the library: "oneDNN 2.6.3".
std::string product_library();
/// Returns the instructions that its kernels use: "avx512_core_bf16".
std::string product_instructions();

}  // namespace tessera::ops::detail
