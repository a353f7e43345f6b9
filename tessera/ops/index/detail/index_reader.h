// Reads indices of either dtype and checks them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/tensor/call.h"

namespace tessera::ops::detail {

/// Refuses indices that are neither i64 nor i32.
inline void check_index(const tensor::Call& call, const Tensor& index) {
  TESSERA_CHECK_CALL(call, index.dtype() == DType::kI64 || index.dtype() == DType::kI32, "the index is ", index.dtype(),
                     "; indices are i64 or i32: cast it");
}

/// Results are written once, and as many elements read.
tensor::Cost moved_cost(const tensor::Call& call);

/// The indices of one tensor, for a kernel.
struct IndexReader {
  const std::byte* from = nullptr;
  bool is_wide = true;
  std::int64_t size = 0;  // indices are below it
  const char* op = "";    // named in errors
  std::int64_t dim = 0;   // likewise

  IndexReader() = default;
  IndexReader(const Tensor& index, std::int64_t below, const char* op_name, std::int64_t of_dim)
      : from(index.data()), is_wide(index.dtype() == DType::kI64), size(below), op(op_name), dim(of_dim) {}

  /// The index at an offset in elements, in range.
  [[nodiscard]] std::int64_t at(std::int64_t offset) const {
    const std::int64_t index = is_wide ? reinterpret_cast<const std::int64_t*>(from)[offset]
                                       : reinterpret_cast<const std::int32_t*>(from)[offset];
    if (index < 0 || index >= size) [[unlikely]]
      refuse(index);
    return index;
  }
  [[noreturn]] void refuse(std::int64_t index) const;
};

}  // namespace tessera::ops::detail
