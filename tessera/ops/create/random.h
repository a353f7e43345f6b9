// Random tensors. An element's value depends on the seed, the number of the call and the element's global index alone:
// not on threads, vectors or shards. Numbers are drawn in f32 and rounded to the dtype; all dtypes draw the same.
//
// A trailing underscore fills a tensor in place. `counter`, an i64 tensor of no dimensions on the same device, is added
// to the number of the call when the operator runs, so that a captured call that advances it draws anew each replay;
// without one it is that of the scope around the call (generator.h).
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
  Shape shape;                          ///< of the result
  DType dtype = DType::kF32;            ///< of the result
  std::int64_t seed = 0;                ///< bits of GeneratorState::seed
  std::int64_t call = 0;                ///< bits of GeneratorState::call
  tensor::Scalar a = 0;                 ///< least value; mean; probability
  tensor::Scalar b = 1;                 ///< end of the range; standard deviation
  tensor::Scalar low = 0;               ///< trunc_normal: least value
  tensor::Scalar high = 0;              ///< trunc_normal: greatest value
  Shape global;                         ///< of the whole tensor, where index is given
  std::vector<layout::IndexMap> index;  ///< global indices, of each dimension; none: their own
  TESSERA_ATTRIBUTES(shape, dtype, seed, call, a, b, low, high, global, index)
};

/// Uniform numbers of [0, 1).
TESSERA_API Tensor rand(const Shape& shape, const CreateOptions& options = {});
/// Standard normal numbers.
TESSERA_API Tensor randn(const Shape& shape, const CreateOptions& options = {});
/// Integers of [low, high), all as likely but for 2^-32 of it.
TESSERA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                           const CreateOptions& options = {.dtype = DType::kI64});
/// 1 with the probability p, else 0.
TESSERA_API Tensor bernoulli(const Shape& shape, double p, const CreateOptions& options = {});
/// The integers of [0, n) in a random order.
TESSERA_API Tensor randperm(std::int64_t n, const CreateOptions& options = {.dtype = DType::kI64});

/// rand, like x.
TESSERA_API Tensor rand_like(const Tensor& x, const Tensor& counter = {});
/// randn, like x.
TESSERA_API Tensor randn_like(const Tensor& x, const Tensor& counter = {});
/// bernoulli, like x.
TESSERA_API Tensor bernoulli_like(const Tensor& x, double p, const Tensor& counter = {});

/// Fills with uniform numbers of [low, high).
TESSERA_API void uniform_(const Tensor& x, double low = 0, double high = 1, const Tensor& counter = {});
/// Fills with normal numbers.
TESSERA_API void normal_(const Tensor& x, double mean = 0, double std = 1, const Tensor& counter = {});
/// Fills with normal numbers, drawn again until they lie in [low, high]. Refuses a range that holds less than 5% of the
/// distribution.
TESSERA_API void trunc_normal_(const Tensor& x, double mean = 0, double std = 1, double low = -2, double high = 2,
                               const Tensor& counter = {});
/// Fills with 1 with the probability p, else 0.
TESSERA_API void bernoulli_(const Tensor& x, double p, const Tensor& counter = {});

}  // namespace tessera::ops
