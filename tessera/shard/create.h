// Tensors made under a layout: each rank makes its own part, nothing is sent. Random values are those that one device
// would draw, bit for bit, whatever the layout: an element's value depends on the seed, the number of the call and its
// global index, so that all ranks must be seeded alike and make the same calls, those off the mesh too.
//
//   Tensor w = shard::randn({4096, 4096}, Layout::create(mesh, {Replicate(), Shard(0)}));
//
// Layouts with partial axes are refused: there is no one way to split a value. Forms of tessera/ops/create that end in
// _like or fill in place take tensors with layouts as they are.
#pragma once

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/ops/create/create.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Memory as it comes.
TESSERA_API Tensor empty(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Every element `value`.
TESSERA_API Tensor full(const Shape& shape, const Scalar& value, const layout::Layout& layout,
                        const ops::CreateOptions& options = {});
/// Every element 0.
TESSERA_API Tensor zeros(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Every element 1.
TESSERA_API Tensor ones(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// start, start + step, ... up to but without `end`.
TESSERA_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const layout::Layout& layout,
                          const ops::CreateOptions& options = {.dtype = DType::kI64});
/// A matrix with ones from its upper left corner down, else zeros.
TESSERA_API Tensor eye(std::int64_t rows, std::int64_t columns, const layout::Layout& layout,
                       const ops::CreateOptions& options = {});

/// Uniform numbers of [0, 1).
TESSERA_API Tensor rand(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Standard normal numbers.
TESSERA_API Tensor randn(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Integers of [low, high).
TESSERA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const layout::Layout& layout,
                           const ops::CreateOptions& options = {.dtype = DType::kI64});
/// 1 with the probability p, else 0.
TESSERA_API Tensor bernoulli(const Shape& shape, double p, const layout::Layout& layout,
                             const ops::CreateOptions& options = {});
/// Normal numbers of [low, high]; see ops::trunc_normal_.
TESSERA_API Tensor trunc_normal(const Shape& shape, double mean, double std, double low, double high,
                                const layout::Layout& layout, const ops::CreateOptions& options = {});
/// The integers of [0, n) in a random order.
TESSERA_API Tensor randperm(std::int64_t n, const layout::Layout& layout,
                            const ops::CreateOptions& options = {.dtype = DType::kI64});

}  // namespace tessera::shard
