// Complex tensors and their parts. A complex element is two real ones side by side, so parts are views.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// The complex conjugate; a real tensor itself.
TESSERA_API Tensor conj(const Tensor& x);
/// The real parts, as a view; a real tensor itself.
TESSERA_API Tensor real(const Tensor& x);
/// The imaginary parts, as a view. Refuses a real tensor.
TESSERA_API Tensor imag(const Tensor& x);
/// A view with one more dimension, of 2: the real and the imaginary part.
TESSERA_API Tensor view_as_real(const Tensor& x);
/// The opposite view: the last dimension is of 2 and step 1.
TESSERA_API Tensor view_as_complex(const Tensor& x);

}  // namespace tessera::ops
