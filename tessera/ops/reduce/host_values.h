// Values of tensors as values of the program. All of these wait for the work before them.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// The only element of a tensor, on any device. Waits for the current stream. With a layout: where it is whole on this
/// rank, else an error.
TESSERA_API Scalar item(const Tensor& x);
/// Whether both have the same shape, dtype and elements; nan equals nothing. Waits for the current stream. With
/// layouts: as item() of what comes of comparing them.
TESSERA_API bool equal(const Tensor& a, const Tensor& b);
/// Whether |a - b| <= absolute + relative * |b| everywhere, or they are equal; with `equal_nan` two nans are, too.
/// Shapes are the same. Waits for the current stream.
TESSERA_API bool allclose(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
                          bool equal_nan = false);

}  // namespace tessera::ops
