// Random tensors. The value of an element depends only on the seed, the call number and the global index of the
// element, not on threads, vector width or sharding. Numbers are drawn in f32 and rounded to the dtype, so that all
// dtypes draw the same numbers.
//
// A trailing underscore fills a tensor in place. `counter` is an i64 tensor without dimensions on the same device. It
// is added to the call number when the operator runs, so that a captured call that advances the counter draws new
// numbers in each replay. By default, it is the counter of the enclosing GeneratorCounterScope (generator.h).
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/ops/create/create.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of the random operators.
struct RandomAttributes {
  Shape shape;                          ///< shape of the result
  DType dtype = DType::kF32;            ///< dtype of the result
  std::int64_t seed = 0;                ///< bits of GeneratorState::seed
  std::int64_t call = 0;                ///< bits of GeneratorState::call
  tensor::Scalar a = 0;                 ///< lower bound, mean or probability
  tensor::Scalar b = 1;                 ///< upper bound or standard deviation
  tensor::Scalar low = 0;               ///< trunc_normal: lower bound
  tensor::Scalar high = 0;              ///< trunc_normal: upper bound
  Shape global;                         ///< global shape, if `index` is set
  std::vector<layout::IndexMap> index;  ///< global indices per dimension; empty: equal to the local indices
  TESSERA_ATTRIBUTES(shape, dtype, seed, call, a, b, low, high, global, index)
};

/// Returns uniform numbers in [0, 1).
TESSERA_API Tensor rand(const Shape& shape, const CreateOptions& options = {});
/// Returns standard normal numbers.
TESSERA_API Tensor randn(const Shape& shape, const CreateOptions& options = {});
/// Returns integers in [low, high). Their probabilities differ by at most 2^-32.
TESSERA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const CreateOptions& options = {});
/// Returns 1 with probability p, otherwise 0.
TESSERA_API Tensor bernoulli(const Shape& shape, double p, const CreateOptions& options = {});
/// Returns normal numbers in [low, high]; see trunc_normal_().
TESSERA_API Tensor trunc_normal(const Shape& shape, double mean, double std, double low, double high,
                                const CreateOptions& options = {});
/// Returns the integers in [0, n) in random order.
TESSERA_API Tensor randperm(std::int64_t n, const CreateOptions& options = {});

/// Returns rand() with the properties of x.
TESSERA_API Tensor rand_like(const Tensor& x, const Tensor& counter = {});
/// Returns randn() with the properties of x.
TESSERA_API Tensor randn_like(const Tensor& x, const Tensor& counter = {});
/// Returns bernoulli() with the properties of x.
TESSERA_API Tensor bernoulli_like(const Tensor& x, double p, const Tensor& counter = {});

/// Fills x with uniform numbers in [low, high).
TESSERA_API void uniform_(const Tensor& x, double low = 0, double high = 1, const Tensor& counter = {});
/// Fills x with normal numbers.
TESSERA_API void normal_(const Tensor& x, double mean = 0, double std = 1, const Tensor& counter = {});
/// Fills x with normal numbers in [low, high]; numbers outside are drawn again. Throws InvalidArgument if [low, high]
/// holds less than 5% of the distribution.
TESSERA_API void trunc_normal_(const Tensor& x, double mean = 0, double std = 1, double low = -2, double high = 2,
                               const Tensor& counter = {});
/// Fills x with 1 with probability p, otherwise 0.
TESSERA_API void bernoulli_(const Tensor& x, double p, const Tensor& counter = {});

}  // namespace tessera::ops
