#include "tessera/ops/nn/detail/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera::ops::detail {
namespace {

// The accuracy that exp-inl.h documents, over a fine grid down to subnormal results.
TEST(RowKernels, ExpIsGoodToTwoUnitsInTheLastPlace) {
  std::vector<float> x;
  for (double at = 0; at > -87.2; at -= 1.7e-4) x.push_back(static_cast<float>(at));
  std::vector<float> y(x.size());
  row_kernels<float>().exp_sum(x.data(), 0, y.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(y[i] - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
  }
  EXPECT_LE(worst, 2.0);
}

}  // namespace
}  // namespace tessera::ops::detail
