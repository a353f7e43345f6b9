// Functions of one tensor, element by element. Each has three forms: the plain name returns a new tensor, a trailing
// underscore works in place, and exp(x, {.out = t}) writes to t. Integers are converted to f32 if the result is not an
// integer.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Returns -x.
TESSERA_API Tensor neg(const Tensor& x);
/// Replaces x by neg(x).
TESSERA_API void neg_(const Tensor& x);
/// Writes neg(x) to `options.out` and returns it.
TESSERA_API Tensor neg(const Tensor& x, const ResultOptions& options);
/// Returns the absolute value. The absolute value of a complex tensor is real.
TESSERA_API Tensor abs(const Tensor& x);
/// Replaces x by abs(x).
TESSERA_API void abs_(const Tensor& x);
/// Writes abs(x) to `options.out` and returns it.
TESSERA_API Tensor abs(const Tensor& x, const ResultOptions& options);
/// Returns -1, 0 or 1; nan for nan.
TESSERA_API Tensor sign(const Tensor& x);
/// Replaces x by sign(x).
TESSERA_API void sign_(const Tensor& x);
/// Writes sign(x) to `options.out` and returns it.
TESSERA_API Tensor sign(const Tensor& x, const ResultOptions& options);
/// Returns e to the power of x.
TESSERA_API Tensor exp(const Tensor& x);
/// Replaces x by exp(x).
TESSERA_API void exp_(const Tensor& x);
/// Writes exp(x) to `options.out` and returns it.
TESSERA_API Tensor exp(const Tensor& x, const ResultOptions& options);
/// Returns the natural logarithm: -inf at 0, nan below 0.
TESSERA_API Tensor log(const Tensor& x);
/// Replaces x by log(x).
TESSERA_API void log_(const Tensor& x);
/// Writes log(x) to `options.out` and returns it.
TESSERA_API Tensor log(const Tensor& x, const ResultOptions& options);
/// Returns log(1 + x), accurate near 0.
TESSERA_API Tensor log1p(const Tensor& x);
/// Replaces x by log1p(x).
TESSERA_API void log1p_(const Tensor& x);
/// Writes log1p(x) to `options.out` and returns it.
TESSERA_API Tensor log1p(const Tensor& x, const ResultOptions& options);
/// Returns the square root; nan below 0.
TESSERA_API Tensor sqrt(const Tensor& x);
/// Replaces x by sqrt(x).
TESSERA_API void sqrt_(const Tensor& x);
/// Writes sqrt(x) to `options.out` and returns it.
TESSERA_API Tensor sqrt(const Tensor& x, const ResultOptions& options);
/// Returns 1 / sqrt(x).
TESSERA_API Tensor rsqrt(const Tensor& x);
/// Replaces x by rsqrt(x).
TESSERA_API void rsqrt_(const Tensor& x);
/// Writes rsqrt(x) to `options.out` and returns it.
TESSERA_API Tensor rsqrt(const Tensor& x, const ResultOptions& options);
/// Returns 1 / x.
TESSERA_API Tensor reciprocal(const Tensor& x);
/// Replaces x by reciprocal(x).
TESSERA_API void reciprocal_(const Tensor& x);
/// Writes reciprocal(x) to `options.out` and returns it.
TESSERA_API Tensor reciprocal(const Tensor& x, const ResultOptions& options);
/// Returns x * x.
TESSERA_API Tensor square(const Tensor& x);
/// Replaces x by square(x).
TESSERA_API void square_(const Tensor& x);
/// Writes square(x) to `options.out` and returns it.
TESSERA_API Tensor square(const Tensor& x, const ResultOptions& options);
/// Returns the sine of x in radians.
TESSERA_API Tensor sin(const Tensor& x);
/// Replaces x by sin(x).
TESSERA_API void sin_(const Tensor& x);
/// Writes sin(x) to `options.out` and returns it.
TESSERA_API Tensor sin(const Tensor& x, const ResultOptions& options);
/// Returns the cosine of x in radians.
TESSERA_API Tensor cos(const Tensor& x);
/// Replaces x by cos(x).
TESSERA_API void cos_(const Tensor& x);
/// Writes cos(x) to `options.out` and returns it.
TESSERA_API Tensor cos(const Tensor& x, const ResultOptions& options);
/// Returns the hyperbolic tangent.
TESSERA_API Tensor tanh(const Tensor& x);
/// Replaces x by tanh(x).
TESSERA_API void tanh_(const Tensor& x);
/// Writes tanh(x) to `options.out` and returns it.
TESSERA_API Tensor tanh(const Tensor& x, const ResultOptions& options);
/// Returns the error function.
TESSERA_API Tensor erf(const Tensor& x);
/// Replaces x by erf(x).
TESSERA_API void erf_(const Tensor& x);
/// Writes erf(x) to `options.out` and returns it.
TESSERA_API Tensor erf(const Tensor& x, const ResultOptions& options);
/// Returns the greatest integer that is at most x, in the same dtype.
TESSERA_API Tensor floor(const Tensor& x);
/// Replaces x by floor(x).
TESSERA_API void floor_(const Tensor& x);
/// Writes floor(x) to `options.out` and returns it.
TESSERA_API Tensor floor(const Tensor& x, const ResultOptions& options);
/// Returns the least integer that is at least x, in the same dtype.
TESSERA_API Tensor ceil(const Tensor& x);
/// Replaces x by ceil(x).
TESSERA_API void ceil_(const Tensor& x);
/// Writes ceil(x) to `options.out` and returns it.
TESSERA_API Tensor ceil(const Tensor& x, const ResultOptions& options);
/// Returns the nearest integer, in the same dtype; halfway cases round to even.
TESSERA_API Tensor round(const Tensor& x);
/// Replaces x by round(x).
TESSERA_API void round_(const Tensor& x);
/// Writes round(x) to `options.out` and returns it.
TESSERA_API Tensor round(const Tensor& x, const ResultOptions& options);

}  // namespace tessera::ops
