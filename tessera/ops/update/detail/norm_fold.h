// The p-norm in two steps, so that chunks, tensors and ranks can be joined in between: the sum of |x|^p, then the root.
// For an infinite p it is the greatest |x|. Values are doubles; nan propagates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tessera/ops/nn/detail/row_kernels.h"

namespace tessera::ops::detail {

/// The p-norm of contiguous chunks.
struct NormFold {
  double p = 2;  ///< above 0

  /// Returns the sum of |x|^p of a contiguous chunk.
  template <class T>
  [[nodiscard]] double of(const T* x, std::int64_t count) const {
    double all = 0;
    for (std::int64_t from = 0; from < count; from += kStretch) {
      const std::int64_t some = std::min(kStretch, count - from);
      if (p == 2) {
        all += static_cast<double>(row_kernels<T>().dot(x + from, x + from, some));
        continue;
      }
      for (std::int64_t i = from; i < from + some; ++i) all = joined(all, power(std::abs(static_cast<double>(x[i]))));
    }
    return all;
  }
  /// Returns the joined value of two chunks.
  [[nodiscard]] double joined(double a, double b) const {
    if (!std::isinf(p)) return a + b;
    return b > a || std::isnan(b) ? b : a;
  }
  /// Returns the norm for the joined value of all chunks.
  [[nodiscard]] double root(double all) const {
    if (p == 2) return std::sqrt(all);
    return p == 1 || std::isinf(p) ? all : std::pow(all, 1 / p);
  }

 private:
  static constexpr std::int64_t kStretch = 1024;  // maximum number of terms of a sum of floats
  [[nodiscard]] double power(double x) const { return p == 1 || std::isinf(p) ? x : std::pow(x, p); }
};

}  // namespace tessera::ops::detail
