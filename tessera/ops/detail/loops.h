// Walks over all elements of a tensor and of others broadcast to it, in the order in which the first lies in memory.
// Dimensions of one element are dropped, dimensions that step alike in every operand are merged, and those along which
// the first operand runs backwards are turned round, so that most calls are one long run or a few.
//
// The elements have numbers [0, numel) in the order of the walk, so that a walk can be cut into pieces anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

/// See the head of this file. A value: addresses of elements are offsets from each operand's first element.
class TESSERA_API Loop {
 public:
  /// The most operands.
  static constexpr std::size_t kMost = 6;
  /// A walk over `operands`, each broadcast to the shape of the first. A null one is a number: it stays where it is.
  explicit Loop(std::span<const Tensor* const> operands);
  /// Likewise.
  Loop(std::initializer_list<const Tensor*> operands) : Loop(std::span(operands.begin(), operands.size())) {}

  /// Elements of the walk.
  [[nodiscard]] std::int64_t numel() const { return numel_; }
  /// How many operands.
  [[nodiscard]] std::size_t operands() const { return count_; }
  /// Dimensions that are left.
  [[nodiscard]] std::size_t ndim() const { return sizes_.size(); }
  /// Step of an operand along the innermost dimension, in elements.
  [[nodiscard]] std::int64_t step(std::size_t operand) const {
    return sizes_.empty() ? 1 : strides_[operand][sizes_.size() - 1];
  }
  /// Whether an operand is one element throughout.
  [[nodiscard]] bool is_constant(std::size_t operand) const;
  /// Length of a dimension, 0 the outermost.
  [[nodiscard]] std::int64_t size(std::size_t dim) const { return sizes_[dim]; }
  /// Step of an operand along a dimension, in elements.
  [[nodiscard]] std::int64_t stride(std::size_t operand, std::size_t dim) const { return strides_[operand][dim]; }
  /// Where the walk begins in an operand, in elements from its first one.
  [[nodiscard]] std::int64_t first(std::size_t operand) const { return first_[operand]; }
  /// Length of the innermost dimension.
  [[nodiscard]] std::int64_t run() const { return sizes_.empty() ? 1 : sizes_[sizes_.size() - 1]; }

  /// Calls body(offsets, n) for the runs of elements [begin, end): `offsets` says for each operand where the run
  /// begins, in elements from its first one; from there on it goes by step(operand).
  template <class F>
  void for_runs(std::int64_t begin, std::int64_t end, F&& body) const {
    Place place = place_of(begin);
    while (begin < end) {
      const std::int64_t n = std::min(run() - place.inner, end - begin);
      body(static_cast<const std::int64_t*>(place.offsets.data()), n);
      begin += n;
      if (begin < end) next_run(place);
    }
  }

 private:
  struct Place {
    std::array<std::int64_t, kMost> offsets = {};
    SmallVector<std::int64_t, 8> index;  // of all dimensions but the innermost
    std::int64_t inner = 0;              // index in the innermost
  };
  [[nodiscard]] Place place_of(std::int64_t element) const;
  void next_run(Place& place) const;
  void add_dim(std::int64_t size, const std::array<std::int64_t, kMost>& steps);

  std::size_t count_;
  std::int64_t numel_;
  SmallVector<std::int64_t, 8> sizes_;           // outer to inner
  SmallVector<std::int64_t, 8> strides_[kMost];  // of each operand, in elements
  std::array<std::int64_t, kMost> first_ = {};   // where the walk begins: not at 0 where a dimension was turned round
};

}  // namespace tessera::ops::detail
