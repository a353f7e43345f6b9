// One index space over N arrays, each with separate strides. Dimensions of size 1 are dropped, and adjacent dimensions
// with compatible strides in all arrays are merged, so that kernels process few, long rows:
//
//   StridedLoop<2> loop;
//   for each dimension: loop.add(size, {out_stride, in_stride});
//   loop.collapse();
//   parallel_for(loop.rows(), grain, [&](begin, end) { loop.for_rows(begin, end, [&](const auto& at) { ... }); });
//
// A row is the innermost dimension: `inner()` indices, `step(i)` elements apart in array i. Kernels capture the loop by
// value.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

template <std::size_t N>
class StridedLoop {
 public:
  using Offsets = std::array<std::int64_t, N>;  // in elements

  // Adds an innermost dimension.
  void add(std::int64_t size, const Offsets& strides) {
    sizes_.push_back(size);
    for (std::size_t i = 0; i < N; ++i) strides_[i].push_back(strides[i]);
  }

  void collapse() {
    const StridedLoop from = *this;
    sizes_.clear();
    for (auto& strides : strides_) strides.clear();
    for (std::size_t d = 0; d < from.sizes_.size(); ++d) {
      if (from.sizes_[d] != 1 && !merge(from, d)) add(from.sizes_[d], from.strides_at(d));
    }
    if (sizes_.empty()) add(1, Offsets{});
  }

  [[nodiscard]] std::int64_t inner() const { return sizes_[sizes_.size() - 1]; }
  [[nodiscard]] std::int64_t step(std::size_t array) const { return strides_[array][sizes_.size() - 1]; }
  // Dimension 0 is the outermost.
  [[nodiscard]] std::size_t ndim() const { return sizes_.size(); }
  [[nodiscard]] std::int64_t size(std::size_t dim) const { return sizes_[dim]; }
  [[nodiscard]] std::int64_t stride(std::size_t array, std::size_t dim) const { return strides_[array][dim]; }
  [[nodiscard]] std::int64_t rows() const {
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < sizes_.size(); ++d) rows *= sizes_[d];
    return rows;
  }
  [[nodiscard]] std::int64_t numel() const { return rows() * inner(); }

  // Calls row(offsets) for the rows [begin, end) with the offsets of the first index of the row.
  template <class F>
  void for_rows(std::int64_t begin, std::int64_t end, const F& row) const {
    if (begin >= end) return;
    tensor::IntList index;
    Offsets at = start(begin, index);
    for (std::int64_t r = begin; r < end; ++r) {
      row(static_cast<const Offsets&>(at));
      if (r + 1 < end) advance(index, at);
    }
  }
  // Calls run(offsets, n) for runs of rows that cover the indices [begin, end), in row-major order.
  template <class F>
  void for_runs(std::int64_t begin, std::int64_t end, const F& run) const {
    if (begin >= end) return;
    const std::int64_t n = inner();
    std::int64_t skip = begin % n;
    for_rows(begin / n, (end + n - 1) / n, [&](const Offsets& row) {
      const std::int64_t length = std::min(n - skip, end - begin);
      Offsets at = row;
      for (std::size_t i = 0; i < N; ++i) at[i] += skip * step(i);
      run(static_cast<const Offsets&>(at), length);
      begin += length;
      skip = 0;
    });
  }

 private:
  [[nodiscard]] Offsets strides_at(std::size_t d) const {
    Offsets strides;
    for (std::size_t i = 0; i < N; ++i) strides[i] = strides_[i][d];
    return strides;
  }

  bool merge(const StridedLoop& from, std::size_t d) {
    if (sizes_.empty()) return false;
    const std::size_t last = sizes_.size() - 1;
    for (std::size_t i = 0; i < N; ++i) {
      if (strides_[i][last] != from.strides_[i][d] * from.sizes_[d]) return false;
    }
    sizes_[last] *= from.sizes_[d];
    for (std::size_t i = 0; i < N; ++i) strides_[i][last] = from.strides_[i][d];
    return true;
  }

  Offsets start(std::int64_t row, tensor::IntList& index) const {
    Offsets at{};
    const std::size_t outer = sizes_.size() - 1;
    for (std::size_t d = 0; d < outer; ++d) index.push_back(0);
    for (std::size_t d = outer; d-- > 0; row /= sizes_[d]) {
      index[d] = row % sizes_[d];
      for (std::size_t i = 0; i < N; ++i) at[i] += index[d] * strides_[i][d];
    }
    return at;
  }

  void advance(tensor::IntList& index, Offsets& at) const {
    for (std::size_t d = sizes_.size() - 1; d-- > 0;) {
      const bool wraps = ++index[d] == sizes_[d];
      const std::int64_t steps = wraps ? 1 - sizes_[d] : 1;
      for (std::size_t i = 0; i < N; ++i) at[i] += steps * strides_[i][d];
      if (!wraps) return;
      index[d] = 0;
    }
  }

  tensor::IntList sizes_;  // outer to inner
  tensor::IntList strides_[N];
};

}  // namespace tessera::ops::detail
