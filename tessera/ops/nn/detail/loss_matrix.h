// Operands of the products of a loss of a linear map.
#pragma once

#include <algorithm>
#include <memory>

#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/nn/detail/rows.h"

namespace tessera::ops::detail {

/// Returns the operand of a contiguous row-major matrix.
template <class T>
GemmOperand dense_operand(T* data, std::int64_t width) {
  return {reinterpret_cast<std::byte*>(data), width, 1, ::tessera::dtype_of<T>()};
}

/// A matrix of rows for products: used in place, or as a contiguous copy of a few rows.
class LossMatrix {
 public:
  /// Constructs an empty matrix.
  LossMatrix() = default;
  /// Refers to `tensor`, of any dtype, as rows of its last dimension.
  explicit LossMatrix(const Tensor& tensor)
      : rows_(tensor, tensor.ndim() - 1),
        width_(tensor.size(-1)),
        in_place_{tensor.is_contiguous() ? tensor.data() : nullptr, width_, 1, tensor.dtype()} {}

  /// Returns the number of rows.
  [[nodiscard]] std::int64_t count() const { return rows_.count(); }
  /// Returns the dtype of the elements.
  [[nodiscard]] DType dtype() const { return in_place_.dtype; }
  /// Returns true if products use the matrix in place.
  [[nodiscard]] bool is_in_place() const { return in_place_.data != nullptr; }
  /// Allocates a copy of `count` rows; null if they are used in place.
  template <class T>
  [[nodiscard]] std::unique_ptr<T[]> room(std::int64_t count) const {
    return is_in_place() ? nullptr : std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count * width_));
  }
  /// Returns the rows from `first` on for writing.
  template <class T>
  GemmOperand begin(std::int64_t first, T* copy) const {
    if (!is_in_place()) return dense_operand(copy, width_);
    GemmOperand at = in_place_;
    at.data += first * width_ * static_cast<std::int64_t>(itemsize(at.dtype));
    return at;
  }
  /// Returns the rows from `first` on for reading.
  template <class T>
  GemmOperand load(std::int64_t first, std::int64_t count, T* copy) const {
    for (std::int64_t i = 0; i < count && !is_in_place(); ++i) {
      T* to = copy + i * width_;
      const T* from = rows_.read(first + i, to);
      if (from != to) std::copy_n(from, width_, to);
    }
    return begin(first, copy);
  }
  /// Stores rows that were written to a copy.
  template <class T>
  void store(std::int64_t first, std::int64_t count, T* copy) const {
    for (std::int64_t i = 0; i < count; ++i) {
      T* from = copy + i * width_;
      T* to = rows_.begin_write(first + i, from);
      if (to != from) std::copy_n(from, width_, to);
      rows_.finish(first + i, from);
    }
  }

 private:
  Rows rows_;
  std::int64_t width_ = 0;
  GemmOperand in_place_;  // no data if it is not contiguous
};

}  // namespace tessera::ops::detail
