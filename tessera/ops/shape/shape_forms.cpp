// The functions that are composed of the operators view, permute and slice.
#include "tessera/ops/shape/shape.h"

#include <algorithm>

#include "tessera/ops/pointwise/convert.h"

namespace tessera::ops {
namespace {

using tensor::IntList;

// Returns true if a tensor with a layout has dimensions of at most one element. Such a dimension may be sharded:
// operators that name dimensions keep its sharding, which a view cannot express.
bool has_small_dims(const Tensor& x) {
  return x.has_layout() && std::ranges::any_of(x.shape(), [](std::int64_t size) { return size <= 1; });
}

int checked_dim(const char* op, const Tensor& x, std::int64_t dim, int ndim) {
  TESSERA_CHECK(dim >= -ndim && dim < ndim, op, ": dimension must be in [", -ndim, ", ", ndim, "), got ", dim, " for ",
                describe(x));
  return static_cast<int>(dim < 0 ? dim + ndim : dim);
}

}  // namespace

namespace detail {

// Computes the size written as -1 from `numel` and the other sizes.
Shape resolved_sizes(const char* op, const Tensor& x, std::int64_t numel, std::span<const std::int64_t> sizes) {
  std::int64_t known = 1;
  std::size_t open = sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != -1) {
      TESSERA_CHECK(sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known), op,
                    ": size must be at least 0, and the number of elements below 2^63, got ", sizes[i], " for ",
                    describe(x));
      continue;
    }
    TESSERA_CHECK(open == sizes.size(), op, ": at most one size must be -1, got sizes ", sizes, " for ", describe(x));
    open = i;
  }
  IntList out;
  for (const std::int64_t size : sizes) out.push_back(size);
  if (open < sizes.size()) {
    TESSERA_CHECK(known > 0 && numel % known == 0, op, ": number of elements must be a multiple of the other sizes (",
                  known, ") to infer -1, got ", numel, " for ", describe(x));
    out[open] = numel / known;
  }
  return Shape(std::span<const std::int64_t>(out));
}

}  // namespace detail

Tensor reshape(const Tensor& x, std::span<const std::int64_t> sizes) {
  const Shape shape = detail::resolved_sizes("reshape", x, x.numel(), sizes);
  // With a layout, each rank decides whether its shard needs a copy; neither case communicates.
  const Tensor local = x.local();
  const bool is_view = !local || local.is_contiguous() ||
                       (!x.has_layout() && detail::view_strides(x.shape(), x.strides(), shape).has_value());
  return view(is_view ? x : contiguous(x), shape.values());
}

Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1) {
  const int ndim = std::max(x.ndim(), 1);  // a scalar counts as one dimension
  const int a = checked_dim("transpose", x, dim0, ndim);
  const int b = checked_dim("transpose", x, dim1, ndim);
  IntList dims;
  for (int d = 0; d < x.ndim(); ++d) dims.push_back(d == a ? b : d == b ? a : d);
  return permute(x, dims);
}

Tensor squeeze(const Tensor& x, const IntList& dims) {
  const int ndim = std::max(x.ndim(), 1);  // a scalar counts as one dimension
  std::vector<bool> goes(static_cast<std::size_t>(ndim), dims.empty());
  for (const std::int64_t dim : dims) goes[static_cast<std::size_t>(checked_dim("squeeze", x, dim, ndim))] = true;
  if (has_small_dims(x)) {
    Tensor out = x;
    for (int d = x.ndim(); d-- > 0;) {
      if (goes[static_cast<std::size_t>(d)] && x.size(d) == 1) out = select(out, d, 0);
    }
    return out;
  }
  IntList sizes;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    if (!goes[i] || x.shape()[i] != 1) sizes.push_back(x.shape()[i]);
  }
  return view(x, sizes);
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
  const int at = checked_dim("unsqueeze", x, dim, x.ndim() + 1);
  if (has_small_dims(x)) {
    IntList order;
    for (int d = 0; d <= x.ndim(); ++d) order.push_back(d == at ? 0 : d < at ? d + 1 : d);
    IntList front = {1};
    front.append(x.shape().values());
    return permute(expand(x, front), order);
  }
  IntList sizes;
  for (int d = 0; d <= x.ndim(); ++d) sizes.push_back(d == at ? 1 : x.size(d < at ? d : d - 1));
  return view(x, sizes);
}

Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last) {
  if (x.ndim() == 0) return view(x, {1});
  const int a = checked_dim("flatten", x, first, x.ndim());
  const int b = checked_dim("flatten", x, last, x.ndim());
  TESSERA_CHECK(a <= b, "flatten: first dimension must not be after the last, got ", first, " and ", last, " for ",
                describe(x));
  IntList sizes;
  std::int64_t merged = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d < a || d > b) {
      sizes.push_back(x.size(d));
    } else if (merged *= x.size(d); d == b) {
      sizes.push_back(merged);
    }
  }
  return reshape(x, sizes);
}

Tensor unflatten(const Tensor& x, std::int64_t dim, std::span<const std::int64_t> sizes) {
  const int at = checked_dim("unflatten", x, dim, x.ndim());
  const Shape parts = detail::resolved_sizes("unflatten", x, x.size(at), sizes);
  TESSERA_CHECK(parts.numel() == x.size(at), "unflatten: sizes must have the product of dimension ", at, " of ",
                describe(x), ", got ", parts);
  IntList all;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == at) {
      all.append(parts.values());
    } else {
      all.push_back(x.size(d));
    }
  }
  return view(x, all);
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const int at = checked_dim("narrow", x, dim, x.ndim());
  const std::int64_t size = x.size(at);
  const std::int64_t from = start < 0 ? start + size : start;
  TESSERA_CHECK(from >= 0 && length >= 0 && from <= size && length <= size - from,
                "narrow: range must be in dimension ", at, " of ", describe(x), ", got ", length, " indices from ",
                start);
  return slice(x, at, from, from + length);
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t dim) {
  const int at = checked_dim("split", x, dim, x.ndim());
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  TESSERA_CHECK(sum == x.size(at), "split: sizes must sum to dimension ", at, " of ", describe(x), " (", x.size(at),
                "), got ", sum);
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    pieces.push_back(narrow(x, at, start, size));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim) {
  const int at = checked_dim("split", x, dim, x.ndim());
  TESSERA_CHECK(size >= 1, "split: size must be at least 1, got ", size, " for ", describe(x));
  IntList sizes;
  std::int64_t rest = x.size(at);
  do {
    sizes.push_back(std::min(size, rest));
    rest -= std::min(size, rest);
  } while (rest > 0);
  return split(x, sizes, at);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim) {
  const int at = checked_dim("chunk", x, dim, x.ndim());
  TESSERA_CHECK(count >= 1, "chunk: count must be at least 1, got ", count, " for ", describe(x));
  return split(x, std::max<std::int64_t>(1, (x.size(at) + count - 1) / count), at);
}

}  // namespace tessera::ops
