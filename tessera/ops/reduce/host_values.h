// Values of tensors on the host. All of these functions wait for the work before them.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Returns the only element of a tensor on any device. Waits for the current stream. Throws InvalidArgument for a
/// tensor with a layout unless it is replicated and this rank is in the mesh.
TESSERA_API Scalar item(const Tensor& x);
/// Returns whether both tensors have equal shape, dtype and elements; nan is not equal to nan. Waits for the current
/// stream. For tensors with layouts, item() of the comparison must be possible.
TESSERA_API bool equal(const Tensor& a, const Tensor& b);
/// Returns whether abs(a - b) <= absolute + relative * abs(b) for all elements, or they are equal; with `equal_nan`,
/// two nans are equal. Waits for the current stream. Throws InvalidArgument if shape or dtype differ.
TESSERA_API bool allclose(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
                          bool equal_nan = false);

}  // namespace tessera::ops
