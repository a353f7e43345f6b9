// What dtype comes of several, as in NumPy and PyTorch.
//
// Kinds are ordered bool, integer, floating, complex: the higher kind wins, whatever its width (i64 with f16 is f16).
// Within a kind the wider wins; f16 with bf16 is f32, an unsigned integer with a signed one the next wider signed one,
// c64 with f64 is c128. A number given in code (Scalar) raises the dtype only when its kind is higher, and then to the
// default of that kind: i64, f32, c64 (c128 with f64). Tensors of no dimensions count like any other.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/tensor/scalar.h"

namespace tessera::ops {

/// The dtype of a result of both. InvalidArgument for u64 with a signed integer, which no integer holds.
TESSERA_API DType promote(DType a, DType b);
/// The dtype of a result of a tensor and a number.
TESSERA_API DType promote(DType a, const tensor::Scalar& b);

}  // namespace tessera::ops
