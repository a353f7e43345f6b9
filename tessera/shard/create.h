// Creates tensors with a layout. Each rank creates its own shard, and nothing is sent.
//
//   Tensor w = shard::randn({4096, 4096}, Layout::create(mesh, {Replicate(), Shard(0)}));
//
// Random values are bitwise equal to those of one device for any layout: an element depends only on the seed, the
// number of the call and the global index. All ranks, even those outside the mesh, must therefore use equal seeds and
// make the same calls. Layouts with partial axes are rejected, because a value can be split in many ways. The _like and
// in-place forms of tessera/ops/create accept tensors with layouts.
#pragma once

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/ops/create/create.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Returns a tensor with uninitialized elements.
TESSERA_API Tensor empty(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Returns a tensor filled with `value`.
TESSERA_API Tensor full(const Shape& shape, const Scalar& value, const layout::Layout& layout,
                        const ops::CreateOptions& options = {});
/// Returns a tensor filled with 0.
TESSERA_API Tensor zeros(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Returns a tensor filled with 1.
TESSERA_API Tensor ones(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Returns start, start + step, ... in the half-open range [start, end).
TESSERA_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const layout::Layout& layout,
                          const ops::CreateOptions& options = {.dtype = DType::kI64});
/// Returns a matrix with ones on its main diagonal and zeros elsewhere.
TESSERA_API Tensor eye(std::int64_t rows, std::int64_t columns, const layout::Layout& layout,
                       const ops::CreateOptions& options = {});

/// Returns uniform random values in [0, 1).
TESSERA_API Tensor rand(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Returns standard normal random values.
TESSERA_API Tensor randn(const Shape& shape, const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Returns random integers in [low, high).
TESSERA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const layout::Layout& layout,
                           const ops::CreateOptions& options = {.dtype = DType::kI64});
/// Returns 1 with probability p, otherwise 0, per element.
TESSERA_API Tensor bernoulli(const Shape& shape, double p, const layout::Layout& layout,
                             const ops::CreateOptions& options = {});
/// Returns normal random values truncated to [low, high]; see ops::trunc_normal_.
TESSERA_API Tensor trunc_normal(const Shape& shape, double mean, double std, double low, double high,
                                const layout::Layout& layout, const ops::CreateOptions& options = {});
/// Returns the integers of [0, n) in random order.
TESSERA_API Tensor randperm(std::int64_t n, const layout::Layout& layout,
                            const ops::CreateOptions& options = {.dtype = DType::kI64});

}  // namespace tessera::shard
