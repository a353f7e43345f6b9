// Checks of the dtypes that operators compute in, with one error message for all operators.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Returns true for floating dtypes that operators compute in: f32, f64, bf16 and f16.
inline bool is_computed_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16;
}

/// Returns true for dtypes that are only stored: f8, u16, u32, u64 and c128.
inline bool is_storage_only(DType dtype) {
  constexpr auto kBit = [](DType of) { return 1U << static_cast<unsigned>(of); };
  constexpr unsigned kStored = kBit(DType::kC128) | kBit(DType::kU16) | kBit(DType::kU32) | kBit(DType::kU64) |
                               kBit(DType::kF8E4M3) | kBit(DType::kF8E5M2);
  return (kStored & kBit(dtype)) != 0;
}

/// Throws InvalidArgument if the dtype of `x`, an argument of the call, is storage only.
void check_computable(const tensor::Call& call, const Tensor& x);
/// Throws InvalidArgument if the dtype of `x` is storage only or not floating.
void check_floating(const tensor::Call& call, const Tensor& x);

}  // namespace tessera::ops::detail
