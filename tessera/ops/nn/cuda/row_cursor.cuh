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

/// How a kernel reads and writes elements: N at a time, computed in T. If the dtype is fixed, 16 bytes of contiguous
/// memory, whose conversion contains no branch; if Stored is void, one element of any dtype and stride.
template <class Computed, class Stored>
struct RowForm {
  using T = Computed;
  using Element = Stored;
  static constexpr int N = 16 / static_cast<int>(sizeof(Stored));
  using Raw = uint4;
};
template <class Computed>
struct RowForm<Computed, void> {
  using T = Computed;
  using Element = void;
  static constexpr int N = 1;
  using Raw = Computed;
};
using FloatForm = RowForm<float, float>;
using Bf16Form = RowForm<float, bf16>;
using F16Form = RowForm<float, f16>;
using AnyForm = RowForm<float, void>;
using DoubleForm = RowForm<double, void>;

namespace elements {

__device__ inline void unpack_pair(float& low, float& high, std::uint32_t pair, const bf16*) {
  widen_pair(low, high, pair);
}
__device__ inline void unpack_pair(float& low, float& high, std::uint32_t pair, const f16*) {
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
      : "=f"(low), "=f"(high)
      : "r"(pair));
}

}  // namespace elements

/// Converts the bytes of a vector.
template <class Form>
__device__ inline void unpack(typename Form::T (&to)[Form::N], const typename Form::Raw& from) {
  if constexpr (Form::N == 1) {
    to[0] = from;
  } else if constexpr (Form::N == 4) {
    to[0] = __uint_as_float(from.x);
    to[1] = __uint_as_float(from.y);
    to[2] = __uint_as_float(from.z);
    to[3] = __uint_as_float(from.w);
  } else {
    constexpr const typename Form::Element* kType = nullptr;
    elements::unpack_pair(to[0], to[1], from.x, kType);
    elements::unpack_pair(to[2], to[3], from.y, kType);
    elements::unpack_pair(to[4], to[5], from.z, kType);
    elements::unpack_pair(to[6], to[7], from.w, kType);
  }
}

/// Rounds values to the bytes of a vector. The sign and the payload of nans may change.
template <class Form>
__device__ inline typename Form::Raw pack(const typename Form::T (&from)[Form::N]) {
  if constexpr (Form::N == 1) {
    return from[0];
  } else if constexpr (Form::N == 4) {
    return {__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]), __float_as_uint(from[3])};
  } else {
    constexpr const typename Form::Element* kType = nullptr;
    return {narrow_pair(from[0], from[1], kType), narrow_pair(from[2], from[3], kType),
            narrow_pair(from[4], from[5], kType), narrow_pair(from[6], from[7], kType)};
  }
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
  /// Refers to the first row. If the tensor is absent, to nothing.
  __device__ explicit RowCursor(const DeviceRows& rows) : at(rows.data), step(rows.step), dtype(rows.dtype) {}
  /// Refers to a row of a tensor that is not absent.
  __device__ RowCursor(const DeviceRows& rows, std::int64_t row) : RowCursor(rows) { at += rows.place(row) * item(); }

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
    // Without a tensor, the same bytes are converted, so that only the load depends on it.
    T same[N];
#pragma unroll
    for (T& each : same) each = otherwise;
    typename Form::Raw raw = pack<Form>(same);
    if (at != nullptr) raw = read(i);
    unpack<Form>(to, raw);
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
    if constexpr (N == 1) {
      store(from[0], at, dtype, i * step);
    } else if constexpr (N == 8) {
      *reinterpret_cast<uint4*>(at + i * 2) = pack<Form>(from);
    } else if (dtype == DType::kF32) {
      *reinterpret_cast<uint4*>(at + i * 4) = pack<Form>(from);
    } else if (dtype == DType::kBF16) {
      write_halves(from, i, static_cast<const bf16*>(nullptr));
    } else {
      write_halves(from, i, static_cast<const f16*>(nullptr));
    }
  }

 private:
  // Returns the size of an element.
  __device__ std::int64_t item() const {
    if constexpr (N == 8) return 2;
    if constexpr (N == 4) return dtype == DType::kF32 ? 4 : 2;
    return static_cast<std::int64_t>(itemsize(dtype));
  }
  template <class S>
  __device__ void write_halves(const T (&from)[N], std::int64_t i, const S* type) const {
    *reinterpret_cast<uint2*>(at + i * 2) =
        uint2{narrow_pair(from[0], from[1], type), narrow_pair(from[2], from[3], type)};
  }
};

}  // namespace tessera::ops::cuda
