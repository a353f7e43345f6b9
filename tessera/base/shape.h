// Shapes and strides. A Shape is a list of dimensions, each at least 0; Strides are the steps, in elements and of
// either sign, from one index of a dimension to the next. Up to eight dimensions are kept in place, without allocation.
//
// No dimensions at all is a scalar: one element. A dimension of 0 makes it empty: no elements, every view of it is
// contiguous and has no bounds. Every size is computed with overflow checked.
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

/// A fixed list of integers, the first eight in place.
class TESSERA_API DimList {
 public:
  /// How many are kept without allocation.
  static constexpr std::size_t kInline = 8;
  /// Empty.
  DimList() = default;
  /// A copy of these.
  explicit DimList(std::span<const std::int64_t> values) : DimList(values.size()) {
    for (std::size_t i = 0; i < size_; ++i) data()[i] = values[i];
  }
  /// `count` zeros.
  explicit DimList(std::size_t count) : size_(count) {
    if (count > kInline) heap_ = std::make_unique<std::int64_t[]>(count);
  }
  // All that is in place is copied, used or not: that is fewer instructions than a loop over what is used.
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

  /// How many there are.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The first of them.
  [[nodiscard]] std::int64_t* data() { return heap_ ? heap_.get() : inline_.data(); }
  /// The first of them.
  [[nodiscard]] const std::int64_t* data() const { return heap_ ? heap_.get() : inline_.data(); }
  /// All of them.
  [[nodiscard]] std::span<const std::int64_t> values() const { return {data(), size_}; }

 private:
  void copy_heap(const DimList& other);

  std::size_t size_ = 0;
  std::unique_ptr<std::int64_t[]> heap_;
  std::array<std::int64_t, kInline> inline_ = {};
};

/// What Shape and Strides share. `Tag` keeps them apart.
template <class Tag>
class Dims {
 public:
  /// No dimensions.
  Dims() = default;
  /// How many dimensions there are.
  [[nodiscard]] int ndim() const { return static_cast<int>(list_.size()); }
  /// The same as a size, for loops over indices.
  [[nodiscard]] std::size_t size() const { return list_.size(); }
  /// The value of dimension `i`, unchecked.
  std::int64_t operator[](std::size_t i) const { return list_.data()[i]; }
  /// First of the values.
  [[nodiscard]] const std::int64_t* begin() const { return list_.data(); }
  /// Past the last of the values.
  [[nodiscard]] const std::int64_t* end() const { return list_.data() + list_.size(); }
  /// All values.
  [[nodiscard]] std::span<const std::int64_t> values() const { return list_.values(); }
  /// Equal when they have the same values in the same order.
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size() != b.size()) return false;
    const std::int64_t* x = a.begin();
    const std::int64_t* y = b.begin();
    for (std::size_t i = 0; i < a.size(); ++i) {  // so few that a call of memcmp costs more
      if (x[i] != y[i]) return false;
    }
    return true;
  }

 protected:
  /// Takes the list over.
  explicit Dims(DimList list) : list_(std::move(list)) {}

 private:
  DimList list_;
};

}  // namespace detail

/// The dimensions of a tensor. A value; cheap to copy.
class TESSERA_API Shape : public detail::Dims<struct ShapeTag> {
 public:
  /// A scalar.
  Shape() = default;
  /// These dimensions; InvalidArgument when one is negative.
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// These dimensions; InvalidArgument when one is negative.
  explicit Shape(std::span<const std::int64_t> dims);
  /// Dimension `index`, counted from the end when negative; InvalidArgument when there is none such.
  [[nodiscard]] std::int64_t dim(int index) const;
  /// Number of elements: 1 for a scalar, 0 when some dimension is 0; InvalidArgument when it does not fit 63 bits.
  [[nodiscard]] std::int64_t numel() const;
  /// Whether there are no elements.
  [[nodiscard]] bool is_empty() const;
};

/// The steps of a tensor's dimensions, in elements. A value; cheap to copy.
class TESSERA_API Strides : public detail::Dims<struct StridesTag> {
 public:
  /// Of a scalar.
  Strides() = default;
  /// These steps.
  Strides(std::initializer_list<std::int64_t> steps) : Strides(std::span(steps.begin(), steps.size())) {}
  /// These steps.
  explicit Strides(std::span<const std::int64_t> steps) : Dims(detail::DimList(steps)) {}
  /// Takes these steps over.
  explicit Strides(detail::DimList steps) : Dims(std::move(steps)) {}
};

/// The least and the greatest element offset that a view touches, both included.
struct OffsetBounds {
  std::int64_t min = 0;  ///< least offset, in elements
  std::int64_t max = 0;  ///< greatest offset, in elements
  /// Equal when both ends are.
  friend bool operator==(const OffsetBounds&, const OffsetBounds&) = default;
};

/// "[2, 3]"; "[]" for a scalar.
TESSERA_API std::string to_string(const Shape& shape);
/// "[3, 1]"; "[]" for a scalar.
TESSERA_API std::string to_string(const Strides& strides);

/// Bytes of a dense tensor; InvalidArgument when they do not fit 63 bits.
TESSERA_API std::size_t nbytes(const Shape& shape, DType dtype);
/// The strides of a dense tensor, last dimension fastest. A dimension of 0 counts as 1, so that they are never all 0.
TESSERA_API Strides contiguous_strides(const Shape& shape);
/// Whether elements lie dense with the last dimension fastest. Strides of dimensions of 1 do not matter, nor any when
/// the shape is empty; InvalidArgument when the two differ in length.
TESSERA_API bool is_contiguous(const Shape& shape, const Strides& strides);
/// The shape both broadcast to: aligned at the last dimension, a 1 takes the other's size. InvalidArgument naming both
/// when they do not fit.
TESSERA_API Shape broadcast(const Shape& a, const Shape& b);
/// The offsets that a view starting at `offset` touches; none when it is empty. InvalidArgument when they do not fit
/// 64 bits or when shape and strides differ in length.
TESSERA_API std::optional<OffsetBounds> view_bounds(const Shape& shape, const Strides& strides,
                                                    std::int64_t offset = 0);

}  // namespace tessera

/// Shapes can be keys of unordered containers.
template <>
struct TESSERA_API std::hash<tessera::Shape> {
  /// Hash of the dimensions and of how many there are.
  std::size_t operator()(const tessera::Shape& shape) const noexcept;
};

/// Strides can be keys of unordered containers.
template <>
struct TESSERA_API std::hash<tessera::Strides> {
  /// Hash of the steps and of how many there are.
  std::size_t operator()(const tessera::Strides& strides) const noexcept;
};
