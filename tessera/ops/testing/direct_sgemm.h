// f32 products by direct library calls, as a reference for benches. A reference must not depend on the library that is
// measured, so it uses the fastest installed library for the given sizes: oneDNN, or OpenBLAS if libopenblas.so.0 can
// be loaded.
#pragma once

#include <string>

namespace tessera::ops::testing {

/// Computes c[m, n] = op(a) op(b) for contiguous matrices, which may be stored transposed.
struct DirectSgemm {
  int m, n, k;
  const float* a;  ///< [m, k], or [k, m] if stored transposed
  const float* b;  ///< [k, n], or [n, k] if stored transposed
  float* c;        ///< [m, n]
  bool is_a_transposed = false;
  bool is_b_transposed = false;

  /// Runs oneDNN on the calling thread.
  void run_dnnl() const;
  /// Runs OpenBLAS on the calling thread. Returns false if it is not installed.
  [[nodiscard]] bool run_openblas() const;
  /// Runs the library that was faster for these sizes at their first use.
  void run() const;
  /// Returns the name of the library that run() uses: "oneDNN".
  [[nodiscard]] std::string library() const;
};

/// Returns the FLOP/s of products of `size` x `size` matrices, one per thread, on `threads` threads.
double direct_sgemm_rate(int threads, int size);

}  // namespace tessera::ops::testing
