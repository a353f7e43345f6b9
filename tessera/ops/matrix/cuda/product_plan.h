// Converts a product to calls of cuBLASLt: copies before the calls, the calls, and a copy after them. A plan is plain
// data that depends only on sizes and strides, so that it can be tested without a device.
//
// Matrices are read and written in place if their rows or their columns are contiguous; other matrices are copied. The
// longest loop becomes a batch; other loops become consecutive calls. cuBLASLt is column-major: a row-major result is
// its column-major transpose, so that the operands are swapped.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tessera/ops/matrix/cuda/gemm_strided.h"
#include "tessera/ops/matrix/cuda/lt_gemm.h"
#include "tessera/ops/matrix/detail/gemm.h"

namespace tessera::ops::cuda {

/// The steps of a product, in this order.
struct ProductPlan {
  std::vector<StridedMove> before;
  std::vector<LtProduct> products;
  std::optional<IntegerGemm> integers;  // instead of `products`
  std::optional<StridedMove> after;
};

/// Returns scratch memory that is valid until the work is enqueued.
using Scratch = std::function<std::byte*(std::size_t nbytes)>;

/// Plans a product with a nonempty result. Throws NotSupported, which names `name`, for too many dimensions.
ProductPlan plan_product(const char* name, detail::Gemm gemm, const Scratch& scratch);

}  // namespace tessera::ops::cuda
