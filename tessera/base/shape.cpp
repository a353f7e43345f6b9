#include "tessera/base/shape.h"

#include <limits>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

std::size_t hash_of(std::span<const std::int64_t> values) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u + values.size();
  for (const std::int64_t value : values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

void check_same_length(const Shape& shape, const Strides& strides) {
  TESSERA_CHECK(shape.size() == strides.size(), "shape ", shape, " and strides ", strides,
                " must have one entry per dimension each");
}

}  // namespace

void detail::DimList::copy_heap(const DimList& other) {
  heap_ = std::make_unique<std::int64_t[]>(size_);
  std::copy_n(other.heap_.get(), size_, heap_.get());
}

Shape::Shape(std::span<const std::int64_t> dims) : Dims(detail::DimList(dims)) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TESSERA_CHECK(dims[i] >= 0, "shape ", *this, ": dimension ", i, " must be at least 0, got ", dims[i]);
  }
}

std::int64_t Shape::dim(int index) const {
  const int at = index < 0 ? index + ndim() : index;
  TESSERA_CHECK(at >= 0 && at < ndim(), "shape ", *this, ": dimension must be in [", -ndim(), ", ", ndim(), "), got ",
                index);
  return (*this)[static_cast<std::size_t>(at)];
}

bool Shape::is_empty() const {
  for (const std::int64_t dim : *this) {
    if (dim == 0) return true;
  }
  return false;
}

std::int64_t Shape::numel() const {
  std::int64_t count = 1;
  bool is_too_large = false;
  for (const std::int64_t dim : *this) {
    if (dim == 0) return 0;  // for any others: [2^62, 2^62, 0] has no elements and does not overflow
    is_too_large |= __builtin_mul_overflow(count, dim, &count);
  }
  if (is_too_large) [[unlikely]]
    TESSERA_THROW(InvalidArgument, "shape ", *this, " has more elements than fit 63 bits");
  return count;
}

std::string to_string(const Shape& shape) { return detail::concat(shape.values()); }
std::string to_string(const Strides& strides) { return detail::concat(strides.values()); }

std::size_t nbytes(const Shape& shape, DType dtype) {
  std::int64_t bytes = shape.numel();
  if (__builtin_mul_overflow(bytes, static_cast<std::int64_t>(itemsize(dtype)), &bytes)) [[unlikely]] {
    TESSERA_THROW(InvalidArgument, "shape ", shape, " of ", dtype, " has more bytes than fit 63 bits");
  }
  return static_cast<std::size_t>(bytes);
}

Strides contiguous_strides(const Shape& shape) {
  detail::DimList steps(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    steps.data()[i] = step;
    if (i > 0 && __builtin_mul_overflow(step, std::max<std::int64_t>(shape[i], 1), &step)) [[unlikely]] {
      TESSERA_THROW(InvalidArgument, "shape ", shape, ": the strides do not fit 63 bits");
    }
  }
  return Strides(std::move(steps));
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  check_same_length(shape, strides);
  if (shape.is_empty()) return true;
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    step = checked_mul(step, shape[i], "elements of a dense shape");
  }
  return true;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const std::size_t lead = longer.size() - shorter.size();
  detail::DimList dims(longer.values());
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& dim = dims.data()[lead + i];
    TESSERA_CHECK(dim == shorter[i] || dim == 1 || shorter[i] == 1, "shapes ", a, " and ", b, " must broadcast, got ",
                  a.dim(static_cast<int>(i) - static_cast<int>(shorter.size())), " and ",
                  b.dim(static_cast<int>(i) - static_cast<int>(shorter.size())), " in dimension ",
                  static_cast<std::int64_t>(i) - static_cast<std::int64_t>(shorter.size()), "; only size 1 broadcasts");
    if (dim == 1) dim = shorter[i];
  }
  return Shape(dims.values());
}

std::optional<OffsetBounds> view_bounds(const Shape& shape, const Strides& strides, std::int64_t offset) {
  check_same_length(shape, strides);
  if (shape.is_empty()) return std::nullopt;
  OffsetBounds bounds{offset, offset};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t reach = checked_mul(shape[i] - 1, strides[i], "reach of a view");
    std::int64_t& end = reach < 0 ? bounds.min : bounds.max;
    end = checked_add(end, reach, "bounds of a view");
  }
  return bounds;
}

}  // namespace tessera

std::size_t std::hash<tessera::Shape>::operator()(const tessera::Shape& shape) const noexcept {
  return tessera::hash_of(shape.values());
}
std::size_t std::hash<tessera::Strides>::operator()(const tessera::Strides& strides) const noexcept {
  return tessera::hash_of(strides.values());
}
