// Operands of the products of a loss behind a linear map.
#pragma once

#include <algorithm>
#include <memory>

#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/nn/detail/rows.h"

namespace tessera::ops::detail {

/// A matrix that lies dense by rows.
template <class T>
GemmOperand dense_operand(T* data, std::int64_t width) {
  return {reinterpret_cast<std::byte*>(data), width, 1, ::tessera::dtype_of<T>()};
}

/// A matrix of rows, as products read and write it: where it lies, or a dense copy of a few of its rows.
class LossMatrix {
 public:
  /// None.
  LossMatrix() = default;
  /// `tensor`, of any dtype, as rows of its last dimension.
  explicit LossMatrix(const Tensor& tensor)
      : rows_(tensor, tensor.ndim() - 1),
        width_(tensor.size(-1)),
        in_place_{tensor.is_contiguous() ? tensor.data() : nullptr, width_, 1, tensor.dtype()} {}

  /// How many rows.
  [[nodiscard]] std::int64_t count() const { return rows_.count(); }
  /// Of the elements.
  [[nodiscard]] DType dtype() const { return in_place_.dtype; }
  /// Whether products use it where it lies.
  [[nodiscard]] bool is_in_place() const { return in_place_.data != nullptr; }
  /// Room for a copy of `count` rows; none where they are used in place.
  template <class T>
  [[nodiscard]] std::unique_ptr<T[]> room(std::int64_t count) const {
    return is_in_place() ? nullptr : std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count * width_));
  }
  /// The rows from `first` on, to write.
  template <class T>
  GemmOperand begin(std::int64_t first, T* copy) const {
    if (!is_in_place()) return dense_operand(copy, width_);
    GemmOperand at = in_place_;
    at.data += first * width_ * static_cast<std::int64_t>(itemsize(at.dtype));
    return at;
  }
  /// The same, to read.
  template <class T>
  GemmOperand load(std::int64_t first, std::int64_t count, T* copy) const {
    for (std::int64_t i = 0; i < count && !is_in_place(); ++i) {
      T* to = copy + i * width_;
      const T* from = rows_.read(first + i, to);
      if (from != to) std::copy_n(from, width_, to);
    }
    return begin(first, copy);
  }
  /// Stores rows that were written into a copy.
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
  GemmOperand in_place_;  // no data: it does not lie dense
};

}  // namespace tessera::ops::detail
