// Views: the same elements with another shape. A view copies nothing, and writes through one view are visible in all
// views.
//
//   view(x, {2, -1})      permute(x, {0, 2, 1})      slice(x, 1, 0, 10, 2)      expand(x, {-1, 5})
//
// A view that strides cannot express throws InvalidArgument; only reshape and flatten copy if necessary. For a tensor
// with a layout, the result is the view of each local shard, if one exists. The gradient is the inverse view.
//
// Negative dimensions count from the end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of `view`.
struct ViewAttributes {
  Shape shape;  ///< shape of the result
  TESSERA_ATTRIBUTES(shape)
};
/// Attributes of `permute`.
struct PermuteAttributes {
  tensor::IntList dims;  ///< dimension of the input for each dimension of the result
  TESSERA_ATTRIBUTES(dims)
};
/// Attributes of `expand`.
struct ExpandAttributes {
  Shape shape;  ///< shape of the result
  TESSERA_ATTRIBUTES(shape)
};
/// Attributes of `slice`.
struct SliceAttributes {
  std::int64_t dim = 0;          ///< dimension that is sliced
  std::int64_t start = 0;        ///< first index; counted from the end if negative; clamped to the dimension
  std::int64_t end = INT64_MAX;  ///< end index, exclusive; counted from the end if negative; clamped to the dimension
  std::int64_t step = 1;         ///< at least 1
  TESSERA_ATTRIBUTES(dim, start, end, step)
};
/// Attributes of `select`.
struct SelectAttributes {
  std::int64_t dim = 0;    ///< dimension that is removed
  std::int64_t index = 0;  ///< counted from the end if negative
  TESSERA_ATTRIBUTES(dim, index)
};

/// Returns a view with these sizes. One size may be -1 and is then computed.
TESSERA_API Tensor view(const Tensor& x, std::span<const std::int64_t> sizes);
/// Returns a view with these sizes. One size may be -1 and is then computed.
inline Tensor view(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return view(x, std::span(sizes.begin(), sizes.size()));
}
/// Returns view() if possible, otherwise a view of a contiguous copy. The strides decide whether elements are shared.
TESSERA_API Tensor reshape(const Tensor& x, std::span<const std::int64_t> sizes);
/// Returns view() if possible, otherwise a view of a contiguous copy. The strides decide whether elements are shared.
inline Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return reshape(x, std::span(sizes.begin(), sizes.size()));
}
/// Returns a view whose dimension i is dimension dims[i] of x. `dims` names each dimension once.
TESSERA_API Tensor permute(const Tensor& x, const tensor::IntList& dims);
/// Returns a view with two dimensions swapped.
TESSERA_API Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1);
/// Returns a view with dimensions of size 1 repeated to these sizes, and new dimensions in front; -1 keeps a size.
/// Elements are shared: clone before writing.
TESSERA_API Tensor expand(const Tensor& x, std::span<const std::int64_t> sizes);
/// Returns a view with dimensions of size 1 repeated to these sizes.
inline Tensor expand(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return expand(x, std::span(sizes.begin(), sizes.size()));
}
/// Returns a view without those of `dims` that have size 1. By default, removes all dimensions of size 1.
TESSERA_API Tensor squeeze(const Tensor& x, const tensor::IntList& dims = {});
/// Returns a view with a new dimension `dim` of size 1.
TESSERA_API Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// Returns dimensions first..last merged into one. Copies if necessary, as reshape does.
TESSERA_API Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
/// Returns a view with dimension `dim` split into dimensions of these sizes. One size may be -1 and is then computed.
TESSERA_API Tensor unflatten(const Tensor& x, std::int64_t dim, std::span<const std::int64_t> sizes);
/// Returns a view with dimension `dim` split into dimensions of these sizes. One size may be -1 and is then computed.
inline Tensor unflatten(const Tensor& x, std::int64_t dim, std::initializer_list<std::int64_t> sizes) {
  return unflatten(x, dim, std::span(sizes.begin(), sizes.size()));
}
/// Returns a view of indices start, start + step, ... below `end` of a dimension. Clamps both to the dimension, as
/// Python does.
TESSERA_API Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t end = INT64_MAX,
                         std::int64_t step = 1);
/// Returns a view of one index of a dimension, without that dimension.
TESSERA_API Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);
/// Returns a view of `length` indices of a dimension. All of them must exist.
TESSERA_API Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// Returns views of `size` indices each. The last one holds the remainder.
TESSERA_API std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
/// Returns views of these sizes, which add up to the dimension.
TESSERA_API std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t dim = 0);
/// Returns at most `count` views of equal size. The last one holds the remainder.
TESSERA_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);

namespace detail {

/// Resolves the size -1 in `sizes` for `numel` elements of x. Errors name `op`.
TESSERA_API Shape resolved_sizes(const char* op, const Tensor& x, std::int64_t numel,
                                 std::span<const std::int64_t> sizes);
/// Returns the strides of shape `to` for elements of `shape` at `strides`; nullopt if no strides express it.
TESSERA_API std::optional<Strides> view_strides(const Shape& shape, const Strides& strides, const Shape& to);

}  // namespace detail

}  // namespace tessera::ops
