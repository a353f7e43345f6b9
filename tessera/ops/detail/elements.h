// Conversion of elements of any dtype to the few types that kernels compute in. A tile is a short run of elements with
// a stride. It is loaded into a compute type and stored from one. Only these conversions round or saturate, once each.
//
//   f32, bf16, f16 (and f8) -> float      f64 -> double      integers and bool -> int64_t      c64 -> complex<float>
//
// conversions.h defines the value of a number in another type. u64 is loaded as the i64 of the same bits, so that
// storing it is exact.
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

/// Type that kernels compute in.
enum class Compute : std::uint8_t { kF32, kF64, kI64, kC64 };

/// Returns the compute type of elements of `dtype`. Throws for c128, which is storage only.
TESSERA_API Compute compute_of(DType dtype);
/// Returns the dtype whose elements have the given compute type.
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

/// Reads `n` elements of `dtype`, starting at `from` and `stride` elements apart, into `to`.
TESSERA_API void load(float* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Reads `n` elements as double.
TESSERA_API void load(double* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Reads `n` elements as int64_t.
TESSERA_API void load(std::int64_t* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Reads `n` elements as complex<float>.
TESSERA_API void load(std::complex<float>* to, const std::byte* from, DType dtype, std::int64_t stride, std::int64_t n);
/// Reads `n` elements as complex<double>. Only casts use it.
TESSERA_API void load(std::complex<double>* to, const std::byte* from, DType dtype, std::int64_t stride,
                      std::int64_t n);
/// Writes `n` values to elements of `dtype`, starting at `to` and `stride` elements apart.
TESSERA_API void store(const float* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n);
/// Writes `n` values of double.
TESSERA_API void store(const double* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n);
/// Writes `n` values of int64_t.
TESSERA_API void store(const std::int64_t* from, std::byte* to, DType dtype, std::int64_t stride, std::int64_t n);
/// Writes `n` values of complex<float>.
TESSERA_API void store(const std::complex<float>* from, std::byte* to, DType dtype, std::int64_t stride,
                       std::int64_t n);
/// Writes `n` values of complex<double>. Only casts use it.
TESSERA_API void store(const std::complex<double>* from, std::byte* to, DType dtype, std::int64_t stride,
                       std::int64_t n);

/// A contiguous range of bytes.
struct ByteRange {
  std::byte* address = nullptr;
  std::size_t nbytes = 0;
};
/// Returns the range from the first to the last byte of a plain tensor, including the gaps of a strided tensor. Kernels
/// declare it as their access.
TESSERA_API ByteRange byte_range(const Tensor& tensor);

}  // namespace tessera::ops::detail
