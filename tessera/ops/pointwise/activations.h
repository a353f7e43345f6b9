// What neural networks put between their products, element by element, with the derivatives that their gradients use.
// Forms are those of functions.h.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// 1 / (1 + e^-x).
TESSERA_API Tensor sigmoid(const Tensor& x);
/// sigmoid, in place.
TESSERA_API void sigmoid_(const Tensor& x);
/// sigmoid, into `out`.
TESSERA_API void sigmoid_out(const Tensor& out, const Tensor& x);
/// x where positive, else 0.
TESSERA_API Tensor relu(const Tensor& x);
/// relu, in place.
TESSERA_API void relu_(const Tensor& x);
/// relu, into `out`.
TESSERA_API void relu_out(const Tensor& out, const Tensor& x);
/// x times the normal distribution function of x.
TESSERA_API Tensor gelu(const Tensor& x);
/// gelu, in place.
TESSERA_API void gelu_(const Tensor& x);
/// gelu, into `out`.
TESSERA_API void gelu_out(const Tensor& out, const Tensor& x);
/// gelu as first published, by a hyperbolic tangent.
TESSERA_API Tensor gelu_tanh(const Tensor& x);
/// gelu_tanh, in place.
TESSERA_API void gelu_tanh_(const Tensor& x);
/// gelu_tanh, into `out`.
TESSERA_API void gelu_tanh_out(const Tensor& out, const Tensor& x);
/// x * sigmoid(x).
TESSERA_API Tensor silu(const Tensor& x);
/// silu, in place.
TESSERA_API void silu_(const Tensor& x);
/// silu, into `out`.
TESSERA_API void silu_out(const Tensor& out, const Tensor& x);
/// log(1 + e^x).
TESSERA_API Tensor softplus(const Tensor& x);
/// softplus, in place.
TESSERA_API void softplus_(const Tensor& x);
/// softplus, into `out`.
TESSERA_API void softplus_out(const Tensor& out, const Tensor& x);
/// silu(a) * b, in one pass.
TESSERA_API Tensor swiglu(const Tensor& a, const Tensor& b);
/// swiglu, into `out`.
TESSERA_API void swiglu_out(const Tensor& out, const Tensor& a, const Tensor& b);

/// `gradient` times the derivative of gelu at x.
TESSERA_API Tensor gelu_backward(const Tensor& gradient, const Tensor& x);
/// `gradient` times the derivative of gelu_tanh at x.
TESSERA_API Tensor gelu_tanh_backward(const Tensor& gradient, const Tensor& x);
/// `gradient` times the derivative of silu at x.
TESSERA_API Tensor silu_backward(const Tensor& gradient, const Tensor& x);

/// Gradients of swiglu, of the shape of its result.
struct SwigluGradients {
  Tensor a;  ///< gradient * b * (the derivative of silu at a)
  Tensor b;  ///< gradient * silu(a)
};
/// Returns both gradients of swiglu(a, b), from the gradient of its result, in one pass.
TESSERA_API SwigluGradients swiglu_backward(const Tensor& gradient, const Tensor& a, const Tensor& b);

}  // namespace tessera::ops
