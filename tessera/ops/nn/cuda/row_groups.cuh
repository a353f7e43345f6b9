// Rows and the threads that process them.
//
// A group of 1 to 1024 threads takes a row; a block holds one group or several. Each thread takes N elements at a time:
//
//   thread 0: [0, N)  [width * N, width * N + N) ...    thread 1: [N, 2N) ...
//
// Vectors of 16 bytes are loaded as bytes, several before the first is converted, which full memory bandwidth requires.
// A group either holds its row in registers or reads it again for each pass. The order of sums depends only on the
// length and on the strides.
#pragma once

#include <cstdint>

#include "tessera/ops/nn/cuda/device_rows.h"
#include "tessera/ops/nn/cuda/row_cursor.cuh"

namespace tessera::ops::cuda {

/// One value that is reduced over the threads of a row.
template <class T>
struct One {
  T value;
  __device__ One other(int by) const { return {__shfl_xor_sync(0xffffffffU, value, by)}; }
};
/// Two sums.
template <class T>
struct Two {
  T first, second;
  __device__ Two other(int by) const {
    return {__shfl_xor_sync(0xffffffffU, first, by), __shfl_xor_sync(0xffffffffU, second, by)};
  }
};

/// The threads of this thread's row. Every thread of a block takes part in every reduction, equally often.
template <bool kMayBeAcross>
struct RowGroup {
  int width;
  int index;  // of this thread in the row
  int slot;   // of the row in the block
  int slots;
  bool is_across;
  int turn = 0;

  __device__ explicit RowGroup(const RowThreads& threads) : width(threads.width), is_across(threads.is_across) {
    const int thread = static_cast<int>(threadIdx.x);
    if (kMayBeAcross && is_across) {
      index = thread / 32;
      slot = thread % 32;
      slots = 32;
    } else {
      index = thread & (width - 1);
      slot = thread / width;
      slots = static_cast<int>(blockDim.x) / width;
    }
  }

  /// Reduces `a` over the row with the commutative `f`; all threads receive the same bits.
  template <class V, class F>
  __device__ V all(V a, const F& f) {
    if constexpr (kMayBeAcross) {
      if (is_across) {
        __shared__ V cells[kMaxRowThreads];
        __syncthreads();  // waits for the readers of the previous reduction
        cells[threadIdx.x] = a;
        __syncthreads();
        a = cells[slot];
#pragma unroll 1
        for (int i = 1; i < width; ++i) a = f(a, cells[slot + 32 * i]);
        return a;
      }
    }
    for (int by = (width < 32 ? width : 32) / 2; by > 0; by /= 2) a = f(a, a.other(by));
    if (width <= 32) return a;
    // Two sets of cells: a thread that writes one has passed the barrier after the last reads of it.
    __shared__ V of_warps[2][32];
    const int warps = width / 32;
    if (threadIdx.x % 32 == 0) of_warps[turn][threadIdx.x / 32] = a;
    wait();
    a = of_warps[turn][slot * warps];
#pragma unroll 3
    for (int i = 1; i < warps; ++i) a = f(a, of_warps[turn][slot * warps + i]);
    turn ^= 1;
    return a;
  }
  template <class T>
  __device__ T sum(T value) {
    return all(One<T>{value}, [](One<T> a, One<T> b) { return One<T>{a.value + b.value}; }).value;
  }
  template <class T>
  __device__ Two<T> sums(T first, T second) {
    return all(Two<T>{first, second}, [](Two<T> a, Two<T> b) {
      return Two<T>{a.first + b.first, a.second + b.second};
    });
  }

  /// Waits for the threads of a row of more than one warp. Barrier 0 is that of the block.
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(slot + 1), "r"(width) : "memory"); }

  /// Calls body(row, is_valid) for the rows of this group. The groups of a block make equally many calls.
  template <class F>
  __device__ void for_rows(std::int64_t count, const F& body) {
    for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * slots; first < count;
         first += static_cast<std::int64_t>(gridDim.x) * slots) {
      const std::int64_t row = first + slot;
      body(row < count ? row : count - 1, row < count);
    }
  }
};

/// The same row of kIn tensors, in registers or read at every pass.
template <class Form, int kIn, bool kIsHeld>
class RowReader {
 public:
  using T = typename Form::T;
  static constexpr int N = Form::N;
  using Index = std::conditional_t<kIsHeld, int, std::int64_t>;
  static constexpr int kHeld = kIsHeld ? kHeldVectors : 1;

  /// Starts to load the row if it is held. `length` is 0 if there is no row. The first vector begins `before` elements
  /// before the row, so that a row at any address is read in vectors. Vectors at both ends then contain elements of
  /// others.
  template <class Group>
  __device__ RowReader(const Group& group, std::int64_t length, const RowCursor<Form> (&rows)[kIn], int before = 0)
      : first_(static_cast<Index>(group.index) * N - before),
        stride_(static_cast<Index>(group.width) * N),
        length_(static_cast<Index>(length)) {
#pragma unroll
    for (int in = 0; in < kIn; ++in) rows_[in] = rows[in];
    if constexpr (kIsHeld) {
#pragma unroll
      for (int v = 0; v < kHeld; ++v) {
        if (first_ + v * stride_ < length_) read(held_[v], first_ + v * stride_);
      }
    }
  }

  /// Calls body(values, i, v) for the elements of this thread, N at a time: T values[kIn][N] from element i on. v is
  /// the index of the vector in this thread if the row is held.
  template <class F>
  __device__ void each(const F& body) const {
    if constexpr (kIsHeld) {
#pragma unroll
      for (int v = 0; v < kHeld; ++v) {
        if (first_ + v * stride_ < length_) call(held_[v], first_ + v * stride_, v, body);
      }
    } else {
      constexpr int kUnroll = kIn == 1 ? 4 : 2;
      Index i = first_;
      for (; i + (kUnroll - 1) * stride_ < length_; i += kUnroll * stride_) {
        typename Form::Raw raw[kUnroll][kIn];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) read(raw[u], i + u * stride_);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) call(raw[u], i + u * stride_, 0, body);
      }
      for (; i < length_; i += stride_) {
        typename Form::Raw raw[kIn];
        read(raw, i);
        call(raw, i, 0, body);
      }
    }
  }

 private:
  __device__ void read(typename Form::Raw (&to)[kIn], Index i) const {
#pragma unroll
    for (int in = 0; in < kIn; ++in) to[in] = rows_[in].read(i);
  }
  template <class F>
  __device__ void call(const typename Form::Raw (&raw)[kIn], Index i, int v, const F& body) const {
    T values[kIn][N];
#pragma unroll
    for (int in = 0; in < kIn; ++in) unpack<Form>(values[in], raw[in]);
    body(values, i, v);
  }

  Index first_;
  Index stride_;
  Index length_;
  RowCursor<Form> rows_[kIn];
  typename Form::Raw held_[kHeld][kIn];
};

/// Defines the forms of a kernel whose body is a function template name<Form, kIsHeld>(args): rows in registers, and
/// rows of any length. `held_bounds` bounds the registers of the former for blocks of 512 threads.
#define TESSERA_ROW_FORM(name, suffix, form, is_held, bounds, parameters, arguments) \
  extern "C" __global__ void bounds name##_##suffix parameters { name##_rows<form, is_held> arguments; }
#define TESSERA_VECTOR_ROW_FORMS(name, suffix, is_held, bounds, parameters, arguments)      \
  TESSERA_ROW_FORM(name, float_##suffix, FloatForm, is_held, bounds, parameters, arguments) \
  TESSERA_ROW_FORM(name, bf16_##suffix, Bf16Form, is_held, bounds, parameters, arguments)   \
  TESSERA_ROW_FORM(name, f16_##suffix, F16Form, is_held, bounds, parameters, arguments)
#define TESSERA_SCALAR_ROW_FORMS(name, parameters, arguments)                                     \
  TESSERA_ROW_FORM(name, any_long, AnyForm, false, __launch_bounds__(512), parameters, arguments) \
  TESSERA_ROW_FORM(name, double_long, DoubleForm, false, __launch_bounds__(512), parameters, arguments)
#define TESSERA_LONG_ROW_FORMS(name, parameters, arguments)                                   \
  TESSERA_VECTOR_ROW_FORMS(name, long, false, __launch_bounds__(1024), parameters, arguments) \
  TESSERA_SCALAR_ROW_FORMS(name, parameters, arguments)
#define TESSERA_ONE_PASS_ROW_FORMS(name, parameters, arguments)                                 \
  TESSERA_VECTOR_ROW_FORMS(name, long, false, __launch_bounds__(256, 3), parameters, arguments) \
  TESSERA_SCALAR_ROW_FORMS(name, parameters, arguments)
#define TESSERA_ROW_FORMS(name, held_bounds, parameters, arguments)              \
  TESSERA_VECTOR_ROW_FORMS(name, held, true, held_bounds, parameters, arguments) \
  TESSERA_LONG_ROW_FORMS(name, parameters, arguments)

/// Registers for so many blocks of 512 threads per multiprocessor.
#define TESSERA_HELD_BLOCKS(count) __launch_bounds__(kMaxHeldThreads, count)

/// The group of a form: groups across rows only read one element at a time.
template <class Form>
using GroupOf = RowGroup<Form::N == 1>;

#define TESSERA_ROWS const __grid_constant__ DeviceRows

}  // namespace tessera::ops::cuda
