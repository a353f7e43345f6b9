// Copies of elements between strided arrays of one dtype, for operators that rearrange elements. Elements are treated
// as bytes, 1, 2, 4, 8 or 16 each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::detail {

/// A word with the size of the largest element.
struct Bytes16 {
  std::uint64_t word[2];
};
/// Calls body with a value of the plain type of `nbytes` bytes.
template <class F>
void with_word(std::size_t nbytes, const F& body) {
  switch (nbytes) {
    case 1: return body(std::uint8_t{});
    case 2: return body(std::uint16_t{});
    case 4: return body(std::uint32_t{});
    case 8: return body(std::uint64_t{});
    default: return body(Bytes16{});
  }
}

/// Returns the bytes of a number as an element of `dtype`.
std::array<std::byte, 16> element_of(const Scalar& value, DType dtype);

/// Copies `n` elements of `nbytes` each. Strides are in elements.
void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::size_t nbytes,
              std::int64_t n);
/// Sets `n` elements to the element at `value`.
void fill_row(std::byte* to, std::int64_t step, const std::byte* value, std::size_t nbytes, std::int64_t n);

/// A copy of a complete index space: writes array 0 of the loop and reads array 1.
struct ElementsCopy {
  StridedLoop<2> loop;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t nbytes = 4;  // bytes of an element

  /// Copies on the threads of the rank.
  void run() const;
  /// Sets every element of array 0 to the element at `value`.
  void fill(const std::byte* value) const;
};
/// Returns a copy of a complete tensor to another of the same shape.
ElementsCopy whole_copy(const Tensor& to, const Tensor& from);

}  // namespace tessera::ops::detail
