// Conversions of elements to another dtype, memory or device.
//
// Floating to integer rounds towards zero, saturates, and converts nan to 0. Integer to narrower integer keeps the low
// bits. Conversions to bool yield "not zero". Complex to real yields the real part. All other conversions round once,
// to nearest.
#pragma once

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of `cast`.
struct CastAttributes {
  DType dtype = DType::kF32;  ///< dtype of the result
  TESSERA_ATTRIBUTES(dtype)
};

/// Returns the elements converted to `dtype`. Returns x itself if it has this dtype.
TESSERA_API Tensor cast(const Tensor& x, DType dtype);
/// Returns a contiguous copy.
TESSERA_API Tensor clone(const Tensor& x);
/// Returns x itself if it is contiguous, otherwise a contiguous copy.
TESSERA_API Tensor contiguous(const Tensor& x);
/// Copies the elements of `from` to `to`, which may be on another device. Broadcasts and converts as needed. Does not
/// wait.
TESSERA_API void copy_(const Tensor& to, const Tensor& from);
/// Returns the tensor on `device`: x itself if it is there, otherwise a contiguous copy. Asynchronous: the copy runs
/// after the work on the current stream of the old device, and later work on the current stream of the new device runs
/// after the copy. Autograd does not record it.
TESSERA_API Tensor to(const Tensor& x, const device::Device& device);
/// Returns cast(to(x, device), dtype). Converts first if that copies fewer bytes.
TESSERA_API Tensor to(const Tensor& x, const device::Device& device, DType dtype);

}  // namespace tessera::ops
