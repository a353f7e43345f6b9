// Operators that create tensors: filled, counted, or only allocated.
//
//   Tensor x = zeros({4, 3}, {.dtype = kBF16, .device = "cuda:0"});
//   Tensor w = ones({8, 1024}, {.layout = {mesh, {{"dp", Shard(0)}}}});
//
// With a layout, each rank creates its own shard, and nothing is sent. All elements, random ones too, have the values
// that one device would give them. All ranks, even those outside the mesh, make the same calls in the same order.
// Layouts with partial axes are rejected, because a value can be split in many ways.
//
// Forms that end in _like copy shape, dtype, device and layout of a tensor, with Partial placements replaced by
// Replicate. A trailing underscore fills a tensor in place.
#pragma once

#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Options of new tensors, besides their shape.
struct CreateOptions {
  std::optional<DType> dtype = {};  ///< dtype of the elements; by default f32, and i64 for arange, randint and randperm
  device::Device device = {};       ///< device of the tensor; by default that of the DeviceScope, or the host
  layout::Layout layout = {};       ///< layout of the tensor; by default the tensor is plain
};

/// Attributes of `full`.
struct FullAttributes {
  Shape shape;                ///< shape of the result
  DType dtype = DType::kF32;  ///< dtype of the result
  tensor::Scalar value;       ///< value of all elements
  TESSERA_ATTRIBUTES(shape, dtype, value)
};
/// Attributes of `arange`.
struct ArangeAttributes {
  std::int64_t size = 0;                ///< number of elements of the result
  DType dtype = DType::kI64;            ///< dtype of the result
  tensor::Scalar start;                 ///< element at global index 0
  tensor::Scalar step = 1;              ///< difference of adjacent elements
  std::vector<layout::IndexMap> index;  ///< global indices of the elements; empty: equal to the local indices
  TESSERA_ATTRIBUTES(size, dtype, start, step, index)
};
/// Attributes of `eye`.
struct EyeAttributes {
  Shape shape;                          ///< shape of the result, two dimensions
  DType dtype = DType::kF32;            ///< dtype of the result
  std::vector<layout::IndexMap> index;  ///< global indices per dimension; empty: equal to the local indices
  TESSERA_ATTRIBUTES(shape, dtype, index)
};

/// Returns a tensor with uninitialized elements.
TESSERA_API Tensor empty(const Shape& shape, const CreateOptions& options = {});
/// Returns a tensor in which all elements are `value`.
TESSERA_API Tensor full(const Shape& shape, const Scalar& value, const CreateOptions& options = {});
/// Returns a tensor of zeros.
TESSERA_API Tensor zeros(const Shape& shape, const CreateOptions& options = {});
/// Returns a tensor of ones.
TESSERA_API Tensor ones(const Shape& shape, const CreateOptions& options = {});
/// Returns start, start + step, ... without `end`. By default, the dtype is i64, or f32 if a number is floating.
TESSERA_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                          const CreateOptions& options = {});
/// Returns start, start + 1, ... without `end`.
TESSERA_API Tensor arange(const Scalar& start, const Scalar& end, const CreateOptions& options = {});
/// Returns the number of elements of arange(start, end, step).
TESSERA_API std::int64_t arange_size(const Scalar& start, const Scalar& end, const Scalar& step);
/// Returns 0, 1, ... without `end`.
TESSERA_API Tensor arange(const Scalar& end, const CreateOptions& options = {});
/// Returns a matrix with ones on the main diagonal and zeros elsewhere.
TESSERA_API Tensor eye(std::int64_t rows, std::int64_t columns, const CreateOptions& options = {});
/// Returns the square matrix eye(size, size).
TESSERA_API Tensor eye(std::int64_t size, const CreateOptions& options = {});

/// Returns empty() with the properties of x.
TESSERA_API Tensor empty_like(const Tensor& x);
/// Returns full() with the properties of x.
TESSERA_API Tensor full_like(const Tensor& x, const Scalar& value);
/// Returns zeros() with the properties of x.
TESSERA_API Tensor zeros_like(const Tensor& x);
/// Returns ones() with the properties of x.
TESSERA_API Tensor ones_like(const Tensor& x);

/// Sets all elements to `value`.
TESSERA_API void fill_(const Tensor& x, const Scalar& value);
/// Sets all elements to 0.
TESSERA_API void zero_(const Tensor& x);

}  // namespace tessera::ops
