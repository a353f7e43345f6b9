// Elements of rows as kernels read and write them: vectors of 16 bytes that are loaded as bytes and converted when they
// are used, or single elements of any dtype and stride.
#pragma once

#include <cstdint>

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/nn/cuda/device_rows.h"

namespace tessera::ops::cuda {

/// Returns e^x with an error of 2 units in the last place, plus that of x. Results below 2^-126 are 0.
__device__ inline float exp_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634F));
  return y;
}
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline float root_of(float x) { return __fsqrt_rn(x); }
__device__ inline double root_of(double x) { return __dsqrt_rn(x); }
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }
template <class T>
__device__ constexpr T minus_infinity() {
  return -static_cast<T>(__builtin_huge_val());
}

/// How a kernel reads and writes elements: N at a time, computed in T. With N of 4 (f32) or 8 (bf16 and f16), 16 bytes
/// of contiguous memory; with N of 1, any dtype and stride.
template <class Computed, int kElements>
struct RowForm {
  using T = Computed;
  static constexpr int N = kElements;
  using Raw = std::conditional_t<N == 1, T, uint4>;
};
using FloatForm = RowForm<float, 4>;
using HalfForm = RowForm<float, 8>;
using AnyForm = RowForm<float, 1>;
using DoubleForm = RowForm<double, 1>;

namespace elements {

__device__ inline void unpack_pair(float& low, float& high, std::uint32_t pair, bool is_bf16) {
  if (is_bf16) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000U);
  } else {
    asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
  }
}
__device__ inline std::uint32_t pack_pair(float low, float high, bool is_bf16) {
  std::uint32_t pair;
  if (is_bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

}  // namespace elements

/// Converts the bytes of a vector.
__device__ inline void unpack(float (&to)[1], float from, DType) { to[0] = from; }
__device__ inline void unpack(double (&to)[1], double from, DType) { to[0] = from; }
__device__ inline void unpack(float (&to)[4], const uint4& from, DType) {
  to[0] = __uint_as_float(from.x);
  to[1] = __uint_as_float(from.y);
  to[2] = __uint_as_float(from.z);
  to[3] = __uint_as_float(from.w);
}
__device__ inline void unpack(float (&to)[8], const uint4& from, DType dtype) {
  const bool is_bf16 = dtype == DType::kBF16;
  elements::unpack_pair(to[0], to[1], from.x, is_bf16);
  elements::unpack_pair(to[2], to[3], from.y, is_bf16);
  elements::unpack_pair(to[4], to[5], from.z, is_bf16);
  elements::unpack_pair(to[6], to[7], from.w, is_bf16);
}

/// A row of a tensor.
template <class Form>
struct RowCursor {
  using T = typename Form::T;
  static constexpr int N = Form::N;

  std::byte* at;
  std::int64_t step;
  DType dtype;

  RowCursor() = default;
  /// Refers to a row. If the tensor is absent, to nothing.
  __device__ RowCursor(const DeviceRows& rows, std::int64_t row)
      : at(rows.data == nullptr ? nullptr
                                : rows.data + rows.place(row) * static_cast<std::int64_t>(itemsize(rows.dtype))),
        step(rows.step),
        dtype(rows.dtype) {}

  /// Loads N elements from `i` on.
  __device__ typename Form::Raw read(std::int64_t i) const {
    if constexpr (N == 1) {
      return load<T>(at, dtype, i * step);
    } else {
      return *reinterpret_cast<const uint4*>(at + i * (16 / N));
    }
  }
  /// Loads and converts N elements; all are `otherwise` if the tensor is absent.
  __device__ void read_or(T (&to)[N], std::int64_t i, T otherwise) const {
    if (at != nullptr) {
      unpack(to, read(i), dtype);
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) to[k] = otherwise;
    }
  }
  /// Returns the number of elements between the start of the vector that contains the first element and this element.
  __device__ int before() const {
    constexpr int kItem = 16 / N;
    return N == 1 ? 0 : static_cast<int>(reinterpret_cast<std::uintptr_t>(at) % 16) / kItem;
  }
  /// Stores the elements from `i` on that are in [0, length).
  __device__ void write_inside(const T (&from)[N], std::int64_t i, std::int64_t length) const {
    if constexpr (N > 1) {
      if (i < 0 || i + N > length) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          if (i + k >= 0 && i + k < length) store(from[k], at, dtype, i + k);
        }
        return;
      }
    }
    write(from, i);
  }
  /// Stores N elements from `i` on, rounded to the dtype. Four elements may also be of a half type.
  __device__ void write(const T (&from)[N], std::int64_t i) const {
    const bool is_bf16 = dtype == DType::kBF16;
    if constexpr (N == 1) {
      store(from[0], at, dtype, i * step);
    } else if constexpr (N == 8) {
      *reinterpret_cast<uint4*>(at + i * 2) =
          uint4{elements::pack_pair(from[0], from[1], is_bf16), elements::pack_pair(from[2], from[3], is_bf16),
                elements::pack_pair(from[4], from[5], is_bf16), elements::pack_pair(from[6], from[7], is_bf16)};
    } else if (dtype == DType::kF32) {
      *reinterpret_cast<float4*>(at + i * 4) = float4{from[0], from[1], from[2], from[3]};
    } else {
      *reinterpret_cast<uint2*>(at + i * 2) =
          uint2{elements::pack_pair(from[0], from[1], is_bf16), elements::pack_pair(from[2], from[3], is_bf16)};
    }
  }
};

}  // namespace tessera::ops::cuda
