// Functions of one tensor, element by element. Each has three forms: a new tensor; in place, with a trailing
// underscore; and into a given tensor. Integers are made f32 where the result is no integer.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// -x.
TESSERA_API Tensor neg(const Tensor& x);
/// neg, in place.
TESSERA_API void neg_(const Tensor& x);
/// neg, into `out`.
TESSERA_API void neg_out(const Tensor& out, const Tensor& x);
/// The absolute value; of a complex tensor a real one.
TESSERA_API Tensor abs(const Tensor& x);
/// abs, in place.
TESSERA_API void abs_(const Tensor& x);
/// abs, into `out`.
TESSERA_API void abs_out(const Tensor& out, const Tensor& x);
/// -1, 0 or 1; nan of nan.
TESSERA_API Tensor sign(const Tensor& x);
/// sign, in place.
TESSERA_API void sign_(const Tensor& x);
/// sign, into `out`.
TESSERA_API void sign_out(const Tensor& out, const Tensor& x);
/// e to the x.
TESSERA_API Tensor exp(const Tensor& x);
/// exp, in place.
TESSERA_API void exp_(const Tensor& x);
/// exp, into `out`.
TESSERA_API void exp_out(const Tensor& out, const Tensor& x);
/// The natural logarithm; -inf at 0, nan below.
TESSERA_API Tensor log(const Tensor& x);
/// log, in place.
TESSERA_API void log_(const Tensor& x);
/// log, into `out`.
TESSERA_API void log_out(const Tensor& out, const Tensor& x);
/// log(1 + x), exact near 0.
TESSERA_API Tensor log1p(const Tensor& x);
/// log1p, in place.
TESSERA_API void log1p_(const Tensor& x);
/// log1p, into `out`.
TESSERA_API void log1p_out(const Tensor& out, const Tensor& x);
/// The square root; nan below 0.
TESSERA_API Tensor sqrt(const Tensor& x);
/// sqrt, in place.
TESSERA_API void sqrt_(const Tensor& x);
/// sqrt, into `out`.
TESSERA_API void sqrt_out(const Tensor& out, const Tensor& x);
/// 1 / sqrt(x).
TESSERA_API Tensor rsqrt(const Tensor& x);
/// rsqrt, in place.
TESSERA_API void rsqrt_(const Tensor& x);
/// rsqrt, into `out`.
TESSERA_API void rsqrt_out(const Tensor& out, const Tensor& x);
/// 1 / x.
TESSERA_API Tensor reciprocal(const Tensor& x);
/// reciprocal, in place.
TESSERA_API void reciprocal_(const Tensor& x);
/// reciprocal, into `out`.
TESSERA_API void reciprocal_out(const Tensor& out, const Tensor& x);
/// x * x.
TESSERA_API Tensor square(const Tensor& x);
/// square, in place.
TESSERA_API void square_(const Tensor& x);
/// square, into `out`.
TESSERA_API void square_out(const Tensor& out, const Tensor& x);
/// The sine, of radians.
TESSERA_API Tensor sin(const Tensor& x);
/// sin, in place.
TESSERA_API void sin_(const Tensor& x);
/// sin, into `out`.
TESSERA_API void sin_out(const Tensor& out, const Tensor& x);
/// The cosine, of radians.
TESSERA_API Tensor cos(const Tensor& x);
/// cos, in place.
TESSERA_API void cos_(const Tensor& x);
/// cos, into `out`.
TESSERA_API void cos_out(const Tensor& out, const Tensor& x);
/// The hyperbolic tangent.
TESSERA_API Tensor tanh(const Tensor& x);
/// tanh, in place.
TESSERA_API void tanh_(const Tensor& x);
/// tanh, into `out`.
TESSERA_API void tanh_out(const Tensor& out, const Tensor& x);
/// The error function.
TESSERA_API Tensor erf(const Tensor& x);
/// erf, in place.
TESSERA_API void erf_(const Tensor& x);
/// erf, into `out`.
TESSERA_API void erf_out(const Tensor& out, const Tensor& x);
/// The next integer below or at x, in the same dtype.
TESSERA_API Tensor floor(const Tensor& x);
/// floor, in place.
TESSERA_API void floor_(const Tensor& x);
/// floor, into `out`.
TESSERA_API void floor_out(const Tensor& out, const Tensor& x);
/// The next integer above or at x.
TESSERA_API Tensor ceil(const Tensor& x);
/// ceil, in place.
TESSERA_API void ceil_(const Tensor& x);
/// ceil, into `out`.
TESSERA_API void ceil_out(const Tensor& out, const Tensor& x);
/// The nearest integer, the even one of two.
TESSERA_API Tensor round(const Tensor& x);
/// round, in place.
TESSERA_API void round_(const Tensor& x);
/// round, into `out`.
TESSERA_API void round_out(const Tensor& out, const Tensor& x);

}  // namespace tessera::ops
