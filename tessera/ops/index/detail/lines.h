// A line is the elements along one dimension; the other dimensions identify it. Operators with an index per element
// work line by line, each line in order.
#pragma once

#include "tessera/ops/index/detail/index_reader.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::detail {

/// Returns the indexed dimension of x. Throws InvalidArgument if the index does not fit x as gather and scatter
/// require.
std::size_t line_dim(const tensor::Call& call, const Tensor& x, const Tensor& index, std::int64_t dim);

/// Corresponding lines of N tensors. All have the dimensions of `places`, the first of them.
template <std::size_t N>
struct Lines {
  StridedLoop<N> loop;                 // the other dimensions
  std::array<std::int64_t, N> step{};  // stride along the line, per tensor
  std::int64_t length = 1;             // length of the line in `places`

  Lines(const Shape& places, std::size_t dim, const std::array<const Tensor*, N>& tensors) {
    for (std::size_t d = 0; d < places.size(); ++d) {
      std::array<std::int64_t, N> strides;
      for (std::size_t i = 0; i < N; ++i) strides[i] = tensors[i]->strides()[d];
      if (d == dim) {
        step = strides;
        length = places[d];
      } else {
        loop.add(places[d], strides);
      }
    }
    loop.collapse();
  }

  /// Calls body(offsets) for each line of a chunk.
  template <class F>
  void for_each(std::int64_t begin, std::int64_t end, const F& body) const {
    loop.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::array<std::int64_t, N> line;
        for (std::size_t t = 0; t < N; ++t) line[t] = at[t] + i * loop.step(t);
        body(static_cast<const std::array<std::int64_t, N>&>(line));
      }
    });
  }
};

/// The rule of x -> index. Other dimensions are shared if their sizes are equal. `x_dims` and `index_dims` are the
/// operands of each, `along` is the factor of the line of the index.
struct LineRule {
  const Shape& x;
  const Shape& index;
  std::size_t dim;
  layout::FactorKind x_kind;      // kind of the line of x
  std::int64_t x_size;            // its size, if only the result has it
  layout::FactorKind index_kind;  // kind of the line of the index

  /// Adds the factors of all operands.
  void add(layout::FactorRule& rule, std::initializer_list<layout::OperandFactors*> like_x,
           std::initializer_list<layout::OperandFactors*> like_index) const;
};

}  // namespace tessera::ops::detail
