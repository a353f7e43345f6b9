// f32 products by direct calls of libraries, for benches to be compared with. A reference must not depend on the
// library that it judges, so the fastest of those that are installed for the sizes at hand is taken: oneDNN, and
// OpenBLAS where libopenblas.so.0 can be loaded.
#pragma once

#include <string>

namespace tessera::ops::testing {

/// c[m, n] = op(a) op(b): dense matrices, each stored transposed if so stated.
struct DirectSgemm {
  int m, n, k;                   ///< sizes
  const float* a;                ///< [m, k], or [k, m] if stored transposed
  const float* b;                ///< [k, n], or [n, k] if stored transposed
  float* c;                      ///< [m, n]
  bool is_a_transposed = false;  ///< of a
  bool is_b_transposed = false;  ///< of b

  /// Runs oneDNN on the calling thread.
  void run_dnnl() const;
  /// Runs OpenBLAS on the calling thread. Returns false if it is not installed.
  [[nodiscard]] bool run_openblas() const;
  /// Runs the one that was faster for these sizes when they were first seen.
  void run() const;
  /// Returns the name of the one that run() takes: "oneDNN".
  [[nodiscard]] std::string library() const;
};

}  // namespace tessera::ops::testing
