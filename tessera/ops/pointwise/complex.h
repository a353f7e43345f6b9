// Complex tensors and their real and imaginary parts. A complex element is stored as two adjacent real numbers, so that
// the parts are views.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Returns the complex conjugate. Returns x itself if it is real.
TESSERA_API Tensor conj(const Tensor& x);
/// Returns a view of the real parts. Returns x itself if it is real.
TESSERA_API Tensor real(const Tensor& x);
/// Returns a view of the imaginary parts. Throws InvalidArgument if x is real.
TESSERA_API Tensor imag(const Tensor& x);
/// Returns a view with an additional last dimension of size 2: the real and the imaginary part.
TESSERA_API Tensor view_as_real(const Tensor& x);
/// Returns the inverse view of view_as_real. The last dimension of x must have size 2 and stride 1.
TESSERA_API Tensor view_as_complex(const Tensor& x);

}  // namespace tessera::ops
