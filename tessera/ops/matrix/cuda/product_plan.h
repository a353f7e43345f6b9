// How a product becomes calls of cuBLASLt: what is copied before, the calls, and what is copied behind. Plain data,
// made from sizes and strides alone, so that it can be checked without a device.
//
// Matrices are read and written where they lie, by rows or by columns; only one that has neither rows nor columns of
// neighbouring elements goes through a dense copy. The longest of the loops is a batch, the others are calls one after
// the other. cuBLASLt thinks in columns: a result by rows is its transpose by columns, so that operands change places.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tessera/ops/matrix/cuda/gemm_strided.h"
#include "tessera/ops/matrix/cuda/lt_gemm.h"
#include "tessera/ops/matrix/detail/gemm.h"

namespace tessera::ops::cuda {

/// What a product takes, in this order.
struct ProductPlan {
  std::vector<StridedMove> before;
  std::vector<LtProduct> products;
  std::optional<IntegerGemm> integers;  // instead of them
  std::optional<StridedMove> behind;
};

/// Gives scratch memory that is good until the work is enqueued.
using Scratch = std::function<std::byte*(std::size_t nbytes)>;

/// Plans a product whose result has elements. NotSupported, naming `name`, for too many dimensions.
ProductPlan plan_product(const char* name, detail::Gemm gemm, const Scratch& scratch);

}  // namespace tessera::ops::cuda
