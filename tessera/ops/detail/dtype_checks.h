// Which dtypes operators compute in, and the refusal of others in one set of words.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Whether it is floating and computed in: f32, f64, bf16 or f16.
inline bool is_computed_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16;
}

/// Refuses dtypes that are storage only, of an argument `x` of the call.
void check_computable(const tensor::Call& call, const Tensor& x);
/// Refuses what is not floating, of those.
void check_floating(const tensor::Call& call, const Tensor& x);

}  // namespace tessera::ops::detail
