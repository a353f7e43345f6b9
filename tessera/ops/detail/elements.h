// Elements of any dtype as the few types that kernels compute in. A tile, a short stretch of elements with some step,
// is loaded into a compute type and stored from one; conversions round or saturate once, here and nowhere else.
//
//   f32, bf16, f16 (and f8) -> float      f64 -> double      integers and bool -> int64_t      c64 -> complex<float>
//
// What becomes of a number in another type is told in conversions.h. u64 is loaded as the i64 of the same bits, so that
// storing it back is exact.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/ops/detail/conversions.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

/// What kernels compute in.
enum class Compute : std::uint8_t { kF32, kF64, kI64, kC64 };

/// What elements of this dtype are computed in; c128 is storage only, and refused with a word.
TESSERA_API Compute compute_of(DType dtype);
/// The dtype whose elements are those of a compute type.
constexpr DType dtype_of(Compute compute) {
  switch (compute) {
    case Compute::kF32: return DType::kF32;
    case Compute::kF64: return DType::kF64;
    case Compute::kI64: return DType::kI64;
    case Compute::kC64: return DType::kC64;
  }
  return DType::kF32;
}

/// Calls `body` with a null pointer of the C++ type that holds elements of `dtype`.
template <class F>
decltype(auto) with_element_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::kF64: return body(static_cast<double*>(nullptr));
    case DType::kF32: return body(static_cast<float*>(nullptr));
    case DType::kF16: return body(static_cast<f16*>(nullptr));
    case DType::kBF16: return body(static_cast<bf16*>(nullptr));
    case DType::kF8E4M3: return body(static_cast<f8e4m3*>(nullptr));
    case DType::kF8E5M2: return body(static_cast<f8e5m2*>(nullptr));
    case DType::kI64: return body(static_cast<std::int64_t*>(nullptr));
    case DType::kI32: return body(static_cast<std::int32_t*>(nullptr));
    case DType::kI16: return body(static_cast<std::int16_t*>(nullptr));
    case DType::kI8: return body(static_cast<std::int8_t*>(nullptr));
    case DType::kU64: return body(static_cast<std::uint64_t*>(nullptr));
    case DType::kU32: return body(static_cast<std::uint32_t*>(nullptr));
    case DType::kU16: return body(static_cast<std::uint16_t*>(nullptr));
    case DType::kU8: return body(static_cast<std::uint8_t*>(nullptr));
    case DType::kBool: return body(static_cast<bool*>(nullptr));
    case DType::kC64: return body(static_cast<std::complex<float>*>(nullptr));
    case DType::kC128: break;
  }
  return body(static_cast<std::complex<double>*>(nullptr));
}

/// Reads `n` elements of `dtype`, `stride` elements apart from `from` on, into `to`.
TESSERA_API void load(float* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise.
TESSERA_API void load(double* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise.
TESSERA_API void load(std::int64_t* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise.
TESSERA_API void load(std::complex<float>* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise; for casts, nothing computes in it.
TESSERA_API void load(std::complex<double>* to, const std::byte* from, DType dtype, std::int64_t stride,
                      std::int64_t n);
/// Writes `n` values to elements of `dtype`, `stride` elements apart from `to` on.
TESSERA_API void store(const float* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise.
TESSERA_API void store(const double* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise.
TESSERA_API void store(const std::int64_t* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n);
/// Likewise.
TESSERA_API void store(const std::complex<float>* from, std::byte* to, DType dtype, std::int64_t stride,
                       std::int64_t n);
/// Likewise; for casts.
TESSERA_API void store(const std::complex<double>* from, std::byte* to, DType dtype, std::int64_t stride,
                       std::int64_t n);

/// Bytes that lie together.
struct ByteRange {
  std::byte* address = nullptr;  ///< the first
  std::size_t nbytes = 0;        ///< how many
};
/// The bytes from the first to the last that a plain tensor touches, gaps of a strided one included: what a kernel
/// declares to access.
TESSERA_API ByteRange byte_range(const Tensor& tensor);

}  // namespace tessera::ops::detail
