// Shapes and strides. A Shape is a list of dimensions, each at least 0. Strides are the
// steps between consecutive indices of each dimension, in elements and of either sign. Up to
// eight dimensions are stored in place, without allocation.
//
// A shape without dimensions is a scalar: one element. A shape with a dimension of 0 is empty: it has no elements, and
// every view of it is contiguous and has no bounds. All sizes are computed with overflow checks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"

namespace tessera {
namespace detail {

/// A fixed-size list of integers, up to eight in place.
class TESSERA_API DimList {
 public:
  /// Maximum size without allocation.
  static constexpr std::size_t kInline = 8;
  DimList() = default;
  /// Copies `values`.
  explicit DimList(std::span<const std::int64_t> values) : DimList(values.size()) {
    for (std::size_t i = 0; i < size_; ++i) data()[i] = values[i];
  }
  /// Constructs `count` zeros.
  explicit DimList(std::size_t count) : size_(count) {
    if (count > kInline) heap_ = std::make_unique<std::int64_t[]>(count);
  }
  // Copies all in-place elements, used or not: this takes fewer instructions than a loop over the used ones.
  DimList(const DimList& other) : size_(other.size_), inline_(other.inline_) {
    if (other.heap_) [[unlikely]]
      copy_heap(other);
  }
  DimList(DimList&& other) noexcept
      : size_(std::exchange(other.size_, 0)), heap_(std::move(other.heap_)), inline_(other.inline_) {}
  DimList& operator=(const DimList& other) {
    if (this != &other) *this = DimList(other);
    return *this;
  }
  DimList& operator=(DimList&& other) noexcept {
    if (this == &other) return *this;
    size_ = std::exchange(other.size_, 0);
    heap_ = std::move(other.heap_);
    inline_ = other.inline_;
    return *this;
  }
  ~DimList() = default;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::int64_t* data() { return heap_ ? heap_.get() : inline_.data(); }
  [[nodiscard]] const std::int64_t* data() const { return heap_ ? heap_.get() : inline_.data(); }
  [[nodiscard]] std::span<const std::int64_t> values() const { return {data(), size_}; }

 private:
  void copy_heap(const DimList& other);

  std::size_t size_ = 0;
  std::unique_ptr<std::int64_t[]> heap_;
  std::array<std::int64_t, kInline> inline_ = {};
};

/// Common base of Shape and Strides. `Tag` makes them distinct types.
template <class Tag>
class Dims {
 public:
  /// Constructs a list without dimensions.
  Dims() = default;
  /// Returns the number of dimensions.
  [[nodiscard]] int ndim() const { return static_cast<int>(list_.size()); }
  /// Returns the number of dimensions as a size, for loops over indices.
  [[nodiscard]] std::size_t size() const { return list_.size(); }
  /// Returns the value of dimension `i`, unchecked.
  std::int64_t operator[](std::size_t i) const { return list_.data()[i]; }
  /// Returns the first value.
  [[nodiscard]] const std::int64_t* begin() const { return list_.data(); }
  /// Returns the end of the values.
  [[nodiscard]] const std::int64_t* end() const { return list_.data() + list_.size(); }
  /// Returns all values.
  [[nodiscard]] std::span<const std::int64_t> values() const { return list_.values(); }
  /// Returns true if both have the same values in the same order.
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size() != b.size()) return false;
    const std::int64_t* x = a.begin();
    const std::int64_t* y = b.begin();
    for (std::size_t i = 0; i < a.size(); ++i) {  // a call of memcmp costs more for so few values
      if (x[i] != y[i]) return false;
    }
    return true;
  }

 protected:
  /// Takes over the list.
  explicit Dims(DimList list) : list_(std::move(list)) {}

 private:
  DimList list_;
};

}  // namespace detail

/// The dimensions of a tensor. A value type; cheap to copy.
class TESSERA_API Shape : public detail::Dims<struct ShapeTag> {
 public:
  /// Constructs the shape of a scalar.
  Shape() = default;
  /// Constructs a shape. Throws InvalidArgument if a dimension is negative.
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// Constructs a shape. Throws InvalidArgument if a dimension is negative.
  explicit Shape(std::span<const std::int64_t> dims);
  /// Returns dimension `index`. A negative index counts from the end. Throws InvalidArgument if it is out of range.
  [[nodiscard]] std::int64_t dim(int index) const;
  /// Returns the number of elements: 1 for a scalar, 0 if a dimension is 0.
  /// Throws InvalidArgument if it exceeds 63 bits.
  [[nodiscard]] std::int64_t numel() const;
  /// Returns true if there are no elements.
  [[nodiscard]] bool is_empty() const;
};

/// The strides of the dimensions of a tensor, in elements. A value type; cheap to copy.
class TESSERA_API Strides : public detail::Dims<struct StridesTag> {
 public:
  /// Constructs the strides of a scalar.
  Strides() = default;
  /// Constructs strides from these steps.
  Strides(std::initializer_list<std::int64_t> steps) : Strides(std::span(steps.begin(), steps.size())) {}
  /// Constructs strides from these steps.
  explicit Strides(std::span<const std::int64_t> steps) : Dims(detail::DimList(steps)) {}
  /// Takes over these steps.
  explicit Strides(detail::DimList steps) : Dims(std::move(steps)) {}
};

/// The smallest and the largest element offset that a view touches.
struct OffsetBounds {
  std::int64_t min = 0;  ///< Smallest offset, in elements.
  std::int64_t max = 0;  ///< Largest offset, in elements.
  /// Compares both offsets.
  friend bool operator==(const OffsetBounds&, const OffsetBounds&) = default;
};

/// Returns "[2, 3]"; "[]" for a scalar.
TESSERA_API std::string to_string(const Shape& shape);
/// Returns "[3, 1]"; "[]" for a scalar.
TESSERA_API std::string to_string(const Strides& strides);

/// Returns the bytes of a contiguous tensor. Throws InvalidArgument if they exceed 63 bits.
TESSERA_API std::size_t nbytes(const Shape& shape, DType dtype);
/// Returns the strides of a contiguous tensor, last dimension fastest. A dimension of 0 counts as 1.
TESSERA_API Strides contiguous_strides(const Shape& shape);
/// Returns true if the elements are contiguous with the last dimension fastest. Strides of dimensions of 1 are ignored,
/// as are all strides of an empty shape. Throws InvalidArgument if the lengths differ.
TESSERA_API bool is_contiguous(const Shape& shape, const Strides& strides);
/// Returns the shape to which both broadcast: aligned at the last dimension, a 1 takes the size of the other. Throws
/// InvalidArgument, which names both shapes, if they are incompatible.
TESSERA_API Shape broadcast(const Shape& a, const Shape& b);
/// Returns the offsets that a view starting at `offset` touches; nothing for an empty view. Throws InvalidArgument if
/// they exceed 64 bits or the lengths of shape and strides differ.
TESSERA_API std::optional<OffsetBounds> view_bounds(const Shape& shape, const Strides& strides,
                                                    std::int64_t offset = 0);

}  // namespace tessera

/// Hash of shapes for unordered containers.
template <>
struct TESSERA_API std::hash<tessera::Shape> {
  /// Returns the hash of the dimensions and their number.
  std::size_t operator()(const tessera::Shape& shape) const noexcept;
};

/// Hash of strides for unordered containers.
template <>
struct TESSERA_API std::hash<tessera::Strides> {
  /// Returns the hash of the steps and their number.
  std::size_t operator()(const tessera::Strides& strides) const noexcept;
};
