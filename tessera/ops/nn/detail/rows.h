// A plain tensor as rows along one dimension, for kernels that work on contiguous rows of a compute type. Contiguous
// rows of that type are used in place; other rows are loaded into scratch memory and stored back from there.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/base/small_vector.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {

/// The rows of a tensor, or no rows. A value type; the caller keeps the memory alive.
class Rows {
 public:
  /// Constructs a value without rows.
  Rows() = default;
  /// Refers to rows along `dim`, the last of the other dimensions fastest. A scalar is one row of one element.
  Rows(const Tensor& tensor, int dim) {
    if (!tensor) return;
    data_ = tensor.data();
    dtype_ = tensor.dtype();
    for (int i = 0; i < tensor.ndim(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i == dim) {
        step_ = tensor.strides()[at];
        length_ = tensor.shape()[at];
      } else {
        append(tensor.shape()[at], tensor.strides()[at]);
      }
    }
    if (length_ == 1) step_ = 1;
  }

  /// Returns a contiguous tensor as one row of all elements, another tensor as rows along its last dimension.
  static Rows longest(const Tensor& tensor) {
    if (!tensor.is_contiguous()) return Rows(tensor, tensor.ndim() - 1);
    Rows rows;
    rows.data_ = tensor.data();
    rows.dtype_ = tensor.dtype();
    rows.length_ = tensor.numel();
    return rows;
  }

  /// Returns true if there are rows.
  [[nodiscard]] bool has_rows() const { return data_ != nullptr; }
  /// Returns the number of rows.
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Returns the number of elements of a row.
  [[nodiscard]] std::int64_t length() const { return length_; }
  /// Returns the row as T: in place, or loaded into `scratch` of at least length() elements.
  template <class T>
  const T* read(std::int64_t row, T* scratch) const {
    const std::byte* at = place(row);
    if (is_dense<T>()) return reinterpret_cast<const T*>(at);
    load(scratch, at, dtype_, step_, length_);
    return scratch;
  }
  /// Reads `count` elements of the row from `begin`.
  template <class T>
  const T* read(std::int64_t row, std::int64_t begin, std::int64_t count, T* scratch) const {
    const std::byte* at = place(row) + begin * step_ * static_cast<std::int64_t>(itemsize(dtype_));
    if (is_dense<T>()) return reinterpret_cast<const T*>(at);
    load(scratch, at, dtype_, step_, count);
    return scratch;
  }
  /// Returns the address to write elements of a row to, from `begin` on, before finish().
  template <class T>
  T* begin_write(std::int64_t row, std::int64_t begin, T* scratch) const {
    return is_dense<T>() ? reinterpret_cast<T*>(place(row)) + begin : scratch;
  }
  /// Stores `count` elements from `begin` on that were written to scratch.
  template <class T>
  void finish(std::int64_t row, std::int64_t begin, std::int64_t count, const T* scratch) const {
    if (is_dense<T>()) return;
    store(scratch, place(row) + begin * step_ * static_cast<std::int64_t>(itemsize(dtype_)), dtype_, step_, count);
  }
  /// Returns the address to write a row as T to, before finish().
  template <class T>
  T* begin_write(std::int64_t row, T* scratch) const {
    return is_dense<T>() ? reinterpret_cast<T*>(place(row)) : scratch;
  }
  /// Stores a row that was written to scratch. Does nothing for a row in place.
  template <class T>
  void finish(std::int64_t row, const T* scratch) const {
    if (!is_dense<T>()) store(scratch, place(row), dtype_, step_, length_);
  }

 private:
  struct Dim {
    std::int64_t size;
    std::int64_t stride;
  };
  template <class T>
  [[nodiscard]] bool is_dense() const {
    return step_ == 1 && dtype_ == ::tessera::dtype_of<T>();
  }
  void append(std::int64_t size, std::int64_t stride) {
    count_ *= size;
    if (size == 1) return;
    if (!dims_.empty() && dims_[dims_.size() - 1].stride == stride * size) {
      dims_[dims_.size() - 1] = {dims_[dims_.size() - 1].size * size, stride};
    } else {
      dims_.push_back({size, stride});
    }
  }
  [[nodiscard]] std::byte* place(std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t i = dims_.size(); i-- > 0; row /= dims_[i].size) offset += row % dims_[i].size * dims_[i].stride;
    return data_ + offset * static_cast<std::int64_t>(itemsize(dtype_));
  }

  std::byte* data_ = nullptr;
  DType dtype_ = DType::kF32;
  std::int64_t step_ = 1;
  std::int64_t length_ = 1;
  std::int64_t count_ = 1;
  SmallVector<Dim, 3> dims_;
};

/// Calls body(begin, end, scratch) on chunks of `count` rows; scratch holds `buffers` rows of `length`.
template <class T, class F>
void for_row_pieces(std::int64_t count, std::int64_t length, std::int64_t buffers, const F& body) {
  parallel_for(count, rows_per_piece(length), [&](std::int64_t begin, std::int64_t end) {
    // Not initialized: that would cost contiguous rows, which need no scratch, as much as writing their results.
    const auto scratch = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(buffers * length));
    body(begin, end, scratch.get());
  });
}

/// Calls `body` with a null pointer of the compute type of floating elements: float or double.
template <class F>
void with_floating(DType dtype, const F& body) {
  if (dtype == DType::kF64) {
    body(static_cast<double*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

/// Returns the dtype for statistics of a floating tensor.
inline DType statistics_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace tessera::ops::detail
