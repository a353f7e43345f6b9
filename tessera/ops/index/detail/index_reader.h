// Reads indices of any integer dtype and checks them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/tensor/call.h"

namespace tessera::ops::detail {

/// Throws InvalidArgument if the indices are not integers.
inline void check_index(const tensor::Call& call, const Tensor& index) {
  TESSERA_CHECK_CALL(call, is_integral(index.dtype()), "index must have an integer dtype, got ", index.dtype(),
                     "; cast it");
}

/// Returns the cost of a copy: results are written once, and as many elements are read.
tensor::Cost moved_cost(const tensor::Call& call);

/// The indices of one tensor, as kernels read them.
struct IndexReader {
  const std::byte* from = nullptr;
  DType dtype = DType::kI64;
  std::int64_t size = 0;  // exclusive upper bound of the indices
  const char* op = "";    // named in errors
  std::int64_t dim = 0;   // named in errors

  IndexReader() = default;
  IndexReader(const Tensor& index, std::int64_t below, const char* op_name, std::int64_t of_dim)
      : from(index.data()), dtype(index.dtype()), size(below), op(op_name), dim(of_dim) {}

  /// Returns the index at an offset in elements. Throws if it is out of range.
  [[nodiscard]] std::int64_t at(std::int64_t offset) const {
    const std::int64_t index = read(offset);
    if (index < 0 || index >= size) [[unlikely]]
      refuse(index);
    return index;
  }
  [[noreturn]] void refuse(std::int64_t index) const;

 private:
  template <class T>
  [[nodiscard]] std::int64_t read_as(std::int64_t offset) const {
    return static_cast<std::int64_t>(reinterpret_cast<const T*>(from)[offset]);
  }
  // An unsigned index above the greatest i64 becomes negative and is thus out of range.
  [[nodiscard]] std::int64_t read(std::int64_t offset) const {
    switch (dtype) {
      case DType::kI32: return read_as<std::int32_t>(offset);
      case DType::kI16: return read_as<std::int16_t>(offset);
      case DType::kI8: return read_as<std::int8_t>(offset);
      case DType::kU64: return read_as<std::uint64_t>(offset);
      case DType::kU32: return read_as<std::uint32_t>(offset);
      case DType::kU16: return read_as<std::uint16_t>(offset);
      case DType::kU8: return read_as<std::uint8_t>(offset);
      default: return read_as<std::int64_t>(offset);
    }
  }
};

}  // namespace tessera::ops::detail
