#include "tessera/ops/detail/elements.h"

#include <cstring>

#include "tessera/base/half_floats.h"

namespace tessera::ops::detail {
namespace {

// Bytes of an imported bool tensor may differ from 0 and 1. They are read as bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class To, class From>
void load_as(To* to, const std::byte* from, std::int64_t stride, std::int64_t n) {
  const auto* elements = reinterpret_cast<const Stored<From>*>(from);
  const auto one = [](Stored<From> element) {
    if constexpr (std::is_same_v<From, bool>) {
      return convert<To>(element != 0);
    } else {
      return convert<To>(element);
    }
  };
  if (n == 0) return;
  if (stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(n) * sizeof(To));
    } else if constexpr (std::is_same_v<To, float> && kIsHalf<From>) {
      tessera::detail::widen(to, elements, n);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = one(elements[i]);
    }
  } else if (stride == 0) {
    // A number in the arguments of a launch may start at any byte.
    Stored<From> element;
    std::memcpy(static_cast<void*>(&element), from, sizeof element);
    std::fill_n(to, n, one(element));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = one(elements[i * stride]);
  }
}

template <class To, class From>
void store_as(const From* from, std::byte* to, std::int64_t stride, std::int64_t n) {
  auto* elements = reinterpret_cast<To*>(to);
  if (n == 0) return;
  if (stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to, static_cast<const void*>(from), static_cast<std::size_t>(n) * sizeof(To));
    } else if constexpr (std::is_same_v<From, float> && kIsHalf<To>) {
      tessera::detail::narrow(elements, from, n);
    } else {
      for (std::int64_t i = 0; i < n; ++i) elements[i] = convert<To>(from[i]);
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) elements[i * stride] = convert<To>(from[i]);
  }
}

template <class To>
void load_any(To* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n) {
  with_element_type(dtype,
                    [&](auto* type) { load_as<To, std::remove_pointer_t<decltype(type)>>(to, from, stride, n); });
}

template <class From>
void store_any(const From* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n) {
  with_element_type(dtype, [&](auto* type) { store_as<std::remove_pointer_t<decltype(type)>>(from, to, stride, n); });
}

}  // namespace

Compute compute_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2: return Compute::kF32;
    case DType::kF64: return Compute::kF64;
    case DType::kC64: return Compute::kC64;
    case DType::kC128: break;
    default: return Compute::kI64;
  }
  TESSERA_THROW(NotSupported, "no operator computes in c128; cast to c64");
}

void load(float* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n) {
  load_any(to, from, dtype, stride, n);
}
void load(double* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n) {
  load_any(to, from, dtype, stride, n);
}
void load(std::int64_t* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n) {
  load_any(to, from, dtype, stride, n);
}
void load(std::complex<float>* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n) {
  load_any(to, from, dtype, stride, n);
}
void load(std::complex<double>* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n) {
  load_any(to, from, dtype, stride, n);
}

void store(const float* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n) {
  store_any(from, to, dtype, stride, n);
}
void store(const double* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n) {
  store_any(from, to, dtype, stride, n);
}
void store(const std::int64_t* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n) {
  store_any(from, to, dtype, stride, n);
}
void store(const std::complex<float>* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n) {
  store_any(from, to, dtype, stride, n);
}
void store(const std::complex<double>* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n) {
  store_any(from, to, dtype, stride, n);
}

ByteRange byte_range(const Tensor& tensor) {
  if (tensor.is_contiguous()) return {tensor.data(), tensor.nbytes()};
  const auto bounds = view_bounds(tensor.shape(), tensor.strides());
  if (!bounds) return {tensor.data(), 0};
  const auto item = static_cast<std::int64_t>(itemsize(tensor.dtype()));
  return {tensor.data() + bounds->min * item, static_cast<std::size_t>((bounds->max - bounds->min + 1) * item)};
}

}  // namespace tessera::ops::detail
