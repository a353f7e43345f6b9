// Iterates over all elements of a tensor and of others broadcast to it, in the memory order of the first tensor. Drops
// dimensions of size 1, merges dimensions with compatible strides in all operands, and reverses dimensions along which
// the first operand has a negative stride. Most calls thus become one long run or a few.
//
// The elements are numbered [0, numel) in this order, so that the loop can be split at any element.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

/// A loop over the elements of several operands. A value type: element addresses are offsets from the first element of
/// each operand.
class TESSERA_API Loop {
 public:
  /// Maximum number of operands.
  static constexpr std::size_t kMax = 6;
  /// Constructs a loop over `operands`, each broadcast to the shape of the first. A null operand is a number; its
  /// offset remains 0.
  explicit Loop(std::span<const Tensor* const> operands);
  /// Constructs a loop over a list of operands.
  Loop(std::initializer_list<const Tensor*> operands) : Loop(std::span(operands.begin(), operands.size())) {}

  /// Returns the number of elements of the loop.
  [[nodiscard]] std::int64_t numel() const { return numel_; }
  /// Returns the number of operands.
  [[nodiscard]] std::size_t operands() const { return count_; }
  /// Returns the number of dimensions after merging.
  [[nodiscard]] std::size_t ndim() const { return sizes_.size(); }
  /// Returns the stride of an operand along the innermost dimension, in elements.
  [[nodiscard]] std::int64_t step(std::size_t operand) const {
    return sizes_.empty() ? 1 : strides_[operand][sizes_.size() - 1];
  }
  /// Returns true if an operand is the same element throughout.
  [[nodiscard]] bool is_constant(std::size_t operand) const;
  /// Returns the size of a dimension; 0 is the outermost.
  [[nodiscard]] std::int64_t size(std::size_t dim) const { return sizes_[dim]; }
  /// Returns the stride of an operand along a dimension, in elements.
  [[nodiscard]] std::int64_t stride(std::size_t operand, std::size_t dim) const { return strides_[operand][dim]; }
  /// Returns the offset at which the loop begins in an operand, in elements from its first element.
  [[nodiscard]] std::int64_t first(std::size_t operand) const { return first_[operand]; }
  /// Returns the size of the innermost dimension.
  [[nodiscard]] std::int64_t run() const { return sizes_.empty() ? 1 : sizes_[sizes_.size() - 1]; }

  /// Calls body(offsets, n) for the runs of elements [begin, end). `offsets` holds the start of the run for each
  /// operand, in elements from its first element. Within the run, operands advance by step(operand).
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
    std::array<std::int64_t, kMax> offsets = {};
    SmallVector<std::int64_t, 8> index;  // all dimensions except the innermost
    std::int64_t inner = 0;              // index in the innermost dimension
  };
  [[nodiscard]] Place place_of(std::int64_t element) const;
  void next_run(Place& place) const;
  void add_dim(std::int64_t size, const std::array<std::int64_t, kMax>& steps);

  std::size_t count_;
  std::int64_t numel_;
  SmallVector<std::int64_t, 8> sizes_;          // outer to inner
  SmallVector<std::int64_t, 8> strides_[kMax];  // per operand, in elements
  std::array<std::int64_t, kMax> first_ = {};   // start of the loop; not 0 if a dimension was reversed
};

}  // namespace tessera::ops::detail
