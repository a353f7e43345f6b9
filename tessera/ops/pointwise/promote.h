// Dtype promotion, as in NumPy and PyTorch.
//
// The kinds are ordered bool, integer, floating, complex. The higher kind wins, whatever its width (i64 with f16 is
// f16). Within a kind the wider dtype wins. f16 with bf16 is f32, an unsigned integer with a signed one is the next
// wider signed integer, and c64 with f64 is c128. A number (Scalar) raises the dtype only if its kind is higher, to the
// default of that kind: i64, f32, c64 (c128 with f64). Tensors without dimensions promote like all other tensors.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/tensor/scalar.h"

namespace tessera::ops {

/// Returns the common dtype. Throws InvalidArgument for u64 with a signed integer: no integer dtype holds both.
TESSERA_API DType promote(DType a, DType b);
/// Returns the dtype of the result of a tensor and a number.
TESSERA_API DType promote(DType a, const tensor::Scalar& b);

}  // namespace tessera::ops
