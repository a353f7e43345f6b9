// Activation functions of neural networks, element by element, and the derivatives that their gradients use. They have
// the forms of functions.h.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Returns 1 / (1 + e^-x).
TESSERA_API Tensor sigmoid(const Tensor& x);
/// Replaces x by sigmoid(x).
TESSERA_API void sigmoid_(const Tensor& x);
/// Writes sigmoid(x) to `options.out` and returns it.
TESSERA_API Tensor sigmoid(const Tensor& x, const ResultOptions& options);
/// Returns x where it is positive, otherwise 0.
TESSERA_API Tensor relu(const Tensor& x);
/// Replaces x by relu(x).
TESSERA_API void relu_(const Tensor& x);
/// Writes relu(x) to `options.out` and returns it.
TESSERA_API Tensor relu(const Tensor& x, const ResultOptions& options);
/// Returns x times the cumulative normal distribution at x.
TESSERA_API Tensor gelu(const Tensor& x);
/// Replaces x by gelu(x).
TESSERA_API void gelu_(const Tensor& x);
/// Writes gelu(x) to `options.out` and returns it.
TESSERA_API Tensor gelu(const Tensor& x, const ResultOptions& options);
/// Returns gelu(x), approximated with a hyperbolic tangent.
TESSERA_API Tensor gelu_tanh(const Tensor& x);
/// Replaces x by gelu_tanh(x).
TESSERA_API void gelu_tanh_(const Tensor& x);
/// Writes gelu_tanh(x) to `options.out` and returns it.
TESSERA_API Tensor gelu_tanh(const Tensor& x, const ResultOptions& options);
/// Returns x * sigmoid(x).
TESSERA_API Tensor silu(const Tensor& x);
/// Replaces x by silu(x).
TESSERA_API void silu_(const Tensor& x);
/// Writes silu(x) to `options.out` and returns it.
TESSERA_API Tensor silu(const Tensor& x, const ResultOptions& options);
/// Returns log(1 + e^x).
TESSERA_API Tensor softplus(const Tensor& x);
/// Replaces x by softplus(x).
TESSERA_API void softplus_(const Tensor& x);
/// Writes softplus(x) to `options.out` and returns it.
TESSERA_API Tensor softplus(const Tensor& x, const ResultOptions& options);
/// Returns silu(a) * b, computed in one pass.
TESSERA_API Tensor swiglu(const Tensor& a, const Tensor& b);
/// Writes swiglu(a, b) to `options.out` and returns it.
TESSERA_API Tensor swiglu(const Tensor& a, const Tensor& b, const ResultOptions& options);

/// Returns `gradient` times the derivative of gelu at x.
TESSERA_API Tensor gelu_backward(const Tensor& gradient, const Tensor& x);
/// Returns `gradient` times the derivative of gelu_tanh at x.
TESSERA_API Tensor gelu_tanh_backward(const Tensor& gradient, const Tensor& x);
/// Returns `gradient` times the derivative of silu at x.
TESSERA_API Tensor silu_backward(const Tensor& gradient, const Tensor& x);

/// Gradients of swiglu, with the shape of its result.
struct SwigluGradients {
  Tensor a;  ///< gradient * b * (the derivative of silu at a)
  Tensor b;  ///< gradient * silu(a)
};
/// Returns both gradients of swiglu(a, b) for the gradient of its result, computed in one pass.
TESSERA_API SwigluGradients swiglu_backward(const Tensor& gradient, const Tensor& a, const Tensor& b);

}  // namespace tessera::ops
