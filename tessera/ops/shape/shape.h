// Views: the same elements under another shape. Nothing is copied; writing through a view is seen in all the others.
//
//   view(x, {2, -1})      permute(x, {0, 2, 1})      slice(x, 1, 0, 10, 2)      expand(x, {-1, 5})
//
// A view that strides cannot express is an error, never a copy; reshape and flatten copy where they must. With a layout
// each becomes the view of every rank's part, where that is one. Gradients: the view backwards.
//
// Dimensions count from the end when negative.
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

/// Of `view`.
struct ViewAttributes {
  Shape shape;  ///< of the result
  TESSERA_ATTRIBUTES(shape)
};
/// Of `permute`.
struct PermuteAttributes {
  tensor::IntList dims;  ///< which dimension of the input each dimension of the result is
  TESSERA_ATTRIBUTES(dims)
};
/// Of `expand`.
struct ExpandAttributes {
  Shape shape;  ///< of the result
  TESSERA_ATTRIBUTES(shape)
};
/// Of `slice`.
struct SliceAttributes {
  std::int64_t dim = 0;          ///< which is cut
  std::int64_t start = 0;        ///< first index; counted from the end when negative; clamped to the dimension
  std::int64_t end = INT64_MAX;  ///< behind the last index; likewise
  std::int64_t step = 1;         ///< at least 1
  TESSERA_ATTRIBUTES(dim, start, end, step)
};
/// Of `select`.
struct SelectAttributes {
  std::int64_t dim = 0;    ///< which goes away
  std::int64_t index = 0;  ///< counted from the end when negative
  TESSERA_ATTRIBUTES(dim, index)
};

/// Under these sizes, one of which may be -1: what is left.
TESSERA_API Tensor view(const Tensor& x, std::span<const std::int64_t> sizes);
/// Likewise.
inline Tensor view(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return view(x, std::span(sizes.begin(), sizes.size()));
}
/// view where it is one; else a view of a dense copy. Whether elements are shared depends on the strides.
TESSERA_API Tensor reshape(const Tensor& x, std::span<const std::int64_t> sizes);
/// Likewise.
inline Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return reshape(x, std::span(sizes.begin(), sizes.size()));
}
/// Dimension i of the result is dimension dims[i] of x; each once.
TESSERA_API Tensor permute(const Tensor& x, const tensor::IntList& dims);
/// Two dimensions swapped.
TESSERA_API Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1);
/// Dimensions of 1 repeated up to these sizes, and new ones put in front; -1: as it is. Elements are shared: clone
/// before writing.
TESSERA_API Tensor expand(const Tensor& x, std::span<const std::int64_t> sizes);
/// Likewise.
inline Tensor expand(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return expand(x, std::span(sizes.begin(), sizes.size()));
}
/// Without those of these dimensions that are 1; none given: without any that is.
TESSERA_API Tensor squeeze(const Tensor& x, const tensor::IntList& dims = {});
/// With a dimension of 1 that then is dimension `dim`.
TESSERA_API Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// Dimensions first..last as one. Copies where it must, as reshape.
TESSERA_API Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
/// A dimension as several, of these sizes, one of which may be -1.
TESSERA_API Tensor unflatten(const Tensor& x, std::int64_t dim, std::span<const std::int64_t> sizes);
/// Likewise.
inline Tensor unflatten(const Tensor& x, std::int64_t dim, std::initializer_list<std::int64_t> sizes) {
  return unflatten(x, dim, std::span(sizes.begin(), sizes.size()));
}
/// Indices start, start + step, ... below end of a dimension. Both are clamped to it, as in Python.
TESSERA_API Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t end = INT64_MAX,
                         std::int64_t step = 1);
/// One index of a dimension, which goes away.
TESSERA_API Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);
/// `length` indices of a dimension, all of which must be there.
TESSERA_API Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// Pieces of `size` each, the last of what is left.
TESSERA_API std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
/// Pieces of these sizes, which add up to the dimension.
TESSERA_API std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t dim = 0);
/// At most `count` pieces of equal size, the last of what is left.
TESSERA_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);

namespace detail {

/// These sizes for `numel` elements of x, the one written -1 being what the others leave; `op` is named in errors.
TESSERA_API Shape resolved_sizes(const char* op, const Tensor& x, std::int64_t numel,
                                 std::span<const std::int64_t> sizes);
/// The strides under which elements at `strides` have another shape; none: no strides do.
TESSERA_API std::optional<Strides> view_strides(const Shape& shape, const Strides& strides, const Shape& to);

}  // namespace detail

}  // namespace tessera::ops
