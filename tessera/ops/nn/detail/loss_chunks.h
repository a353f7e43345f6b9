// Memory of linear_cross_entropy on CUDA, which computes the logits of some rows at a time. The kernel and the
// prediction of its memory share these sizes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::detail {

/// Returns the number of rows whose logits are held at a time: up to 2^27 logits (512 MiB in f32). With fewer rows, the
/// sum of the gradient of the weight is read and written more often than pays. Sums over a multiple of 128 rows may be
/// split.
inline std::int64_t loss_chunk_rows(std::int64_t rows, std::int64_t classes) {
  const std::int64_t most = (std::int64_t{1} << 27) / std::max<std::int64_t>(classes, 1);
  return std::min(std::clamp<std::int64_t>(most / 128 * 128, 128, 8192), std::max<std::int64_t>(rows, 1));
}

/// Returns the distance between rows of logits. Rows begin at aligned addresses for any number of classes, which the
/// fastest products require.
inline std::int64_t loss_row_stride(std::int64_t classes) { return (classes + 7) / 8 * 8; }

/// Returns the dtype of logits, for operands of this dtype.
inline DType loss_logits_dtype(DType x) { return x == DType::kF64 ? DType::kF64 : DType::kF32; }
/// Returns the dtype of the operands of products: f16 would lose the gradients of rare classes.
inline DType loss_operand_dtype(DType x) { return x == DType::kBF16 ? DType::kBF16 : loss_logits_dtype(x); }

}  // namespace tessera::ops::detail
