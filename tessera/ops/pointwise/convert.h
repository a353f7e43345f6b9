// Elements as another dtype, in another place or on another device.
//
// Floating to integer goes towards zero, saturates and makes 0 of nan; integer to narrower integer keeps the low bits;
// anything to bool is "not zero"; complex to real is the real part; all else rounds once, to nearest.
#pragma once

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of cast.
struct CastAttributes {
  DType dtype = DType::kF32;  ///< of the result
  TESSERA_ATTRIBUTES(dtype)
};

/// The elements as `dtype`; the tensor itself when it has it.
TESSERA_API Tensor cast(const Tensor& x, DType dtype);
/// cast, into `out` of that dtype.
TESSERA_API void cast_out(const Tensor& out, const Tensor& x);
/// A dense copy.
TESSERA_API Tensor clone(const Tensor& x);
/// The tensor itself where it is dense, else a dense copy.
TESSERA_API Tensor contiguous(const Tensor& x);
/// Copies the elements of `from`, broadcast and cast as needed, into `to`; between devices too. Not waited for.
TESSERA_API void copy_(const Tensor& to, const Tensor& from);
/// The tensor on `device`: itself when it lies there, else a dense copy. Asynchronous: the copy is ordered behind the
/// work on the current stream of its old device, and work on the current stream of the new one is ordered behind it.
/// Outside autograd.
TESSERA_API Tensor to(const Tensor& x, const device::Device& device);

}  // namespace tessera::ops
