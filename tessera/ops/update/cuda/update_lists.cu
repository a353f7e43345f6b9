// Updates of many tensors in one launch, with the operations and the rounding of update_kernels.cpp. Results differ
// from those of the host only as far as pow() of doubles does.
//
// The tensors form one sequence of units. Each block takes an equal part of it, so that it searches its first tensor
// once. An operation has
//
//   kIn, kOut   numbers of inputs and results; source_of() is the input that holds a result
//   values()    computes what all elements share, in doubles
//   Typed       updates the inputs of one element in place
#include "tessera/ops/update/cuda/lists.cuh"

namespace tessera::ops::cuda {
namespace {

constexpr int kBlock = 256;
static_assert(kBlock * 4 == kListUnit, "a unit is a vector of each thread");

__device__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ float mul_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ double mul_add(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
__device__ double quotient(double a, double b) { return __ddiv_rn(a, b); }
__device__ float root(float a) { return __fsqrt_rn(a); }
__device__ double root(double a) { return __dsqrt_rn(a); }

/// Returns the input that an update replaces by a result: all but the gradient.
__device__ constexpr int source_of(int result) { return result == 0 ? 0 : result + 1; }

__device__ double read(const ListScalar& of, double otherwise) {
  return of.data != nullptr ? load<double>(of.data, of.dtype, 0) : otherwise;
}

struct Add {
  static constexpr int kIn = 2, kOut = 1;
  static __device__ void values(const StepInfo& info, double* to) { to[0] = info.attributes[0]; }
  template <class T>
  struct Typed {
    T by;
    __device__ explicit Typed(const double* of) : by(static_cast<T>(of[0])) {}
    __device__ void operator()(T (&x)[kIn]) const { x[0] = mul_add(by, x[1], x[0]); }
  };
};

struct Mul {
  static constexpr int kIn = 1, kOut = 1;
  static __device__ void values(const StepInfo& info, double* to) { to[0] = info.attributes[0] * read(info.clip, 1); }
  template <class T>
  struct Typed {
    T by;
    __device__ explicit Typed(const double* of) : by(static_cast<T>(of[0])) {}
    __device__ void operator()(T (&x)[kIn]) const { x[0] = mul(x[0], by); }
  };
};

// Parameter, gradient and, with momentum, the running sum.
template <bool kHasMomentum>
struct Sgd {
  static constexpr int kIn = kHasMomentum ? 3 : 2, kOut = kIn - 1;
  static __device__ void values(const StepInfo& info, double* to) {
    for (int i = 0; i < 3; ++i) to[i] = info.attributes[i];  // momentum, weight decay, nesterov
    to[3] = read(info.clip, 1);
    to[4] = read(info.learning_rate, 0);
  }
  template <class T>
  struct Typed {
    T momentum, weight_decay, clip, rate;
    bool is_nesterov;
    __device__ explicit Typed(const double* of)
        : momentum(static_cast<T>(of[0])),
          weight_decay(static_cast<T>(of[1])),
          clip(static_cast<T>(of[3])),
          rate(static_cast<T>(of[4])),
          is_nesterov(of[2] != 0) {}
    __device__ void operator()(T (&x)[kIn]) const {
      T grad = mul_add(weight_decay, x[0], mul(x[1], clip));
      if constexpr (kHasMomentum) {
        x[2] = mul_add(momentum, x[2], grad);
        grad = is_nesterov ? mul_add(momentum, x[2], grad) : x[2];
      }
      x[0] = mul_add(-rate, grad, x[0]);
    }
  };
};

// Parameter, gradient and the mean of gradients.
struct Lion {
  static constexpr int kIn = 3, kOut = 2;
  static __device__ void values(const StepInfo& info, double* to) {
    const double rate = read(info.learning_rate, 0);
    to[0] = info.attributes[0];
    to[1] = info.attributes[1];
    to[2] = 1 - rate * info.attributes[2];
    to[3] = read(info.clip, 1);
    to[4] = rate;
  }
  template <class T>
  struct Typed {
    T beta1, beta2, rest1, rest2, keep, clip, rate;
    __device__ explicit Typed(const double* of)
        : beta1(static_cast<T>(of[0])),
          beta2(static_cast<T>(of[1])),
          rest1(T(1) - static_cast<T>(of[0])),
          rest2(T(1) - static_cast<T>(of[1])),
          keep(static_cast<T>(of[2])),
          clip(static_cast<T>(of[3])),
          rate(static_cast<T>(of[4])) {}
    __device__ void operator()(T (&x)[kIn]) const {
      const T grad = mul(x[1], clip);
      const T between = mul_add(rest1, grad, mul(beta1, x[2]));
      // The sign: 0 for 0, and nan for nan, so that a bad gradient shows.
      const T sign = between > T(0) ? T(1) : between < T(0) ? T(-1) : between;
      x[0] = mul_add(-rate, sign, mul(x[0], keep));
      x[2] = mul_add(rest2, grad, mul(beta2, x[2]));
    }
  };
};

// Parameter, gradient, first and second moment.
struct AdamW {
  static constexpr int kIn = 4, kOut = 3;
  static __device__ void values(const StepInfo&, double*) {}  // prepared by adamw_step
  template <class T>
  struct Typed {
    T beta1, beta2, rest1, rest2, eps, keep, clip, rate, root_scale;
    __device__ explicit Typed(const double* of)
        : beta1(static_cast<T>(of[0])),
          beta2(static_cast<T>(of[1])),
          rest1(T(1) - static_cast<T>(of[0])),
          rest2(T(1) - static_cast<T>(of[1])),
          eps(static_cast<T>(of[2])),
          keep(static_cast<T>(of[3])),
          clip(static_cast<T>(of[4])),
          rate(static_cast<T>(of[5])),
          root_scale(static_cast<T>(of[6])) {}
    __device__ void operator()(T (&x)[kIn]) const {
      const T grad = mul(x[1], clip);
      x[2] = mul_add(rest1, grad, mul(beta1, x[2]));
      x[3] = mul_add(mul(rest2, grad), grad, mul(beta2, x[3]));
      x[0] = mul_add(-rate, quotient(x[2], mul_add(root(x[3]), root_scale, eps)), mul(x[0], keep));
    }
  };
};

/// Computes the values of the step for the block. All threads must call it.
template <class Op>
__device__ void prepare(const StepInfo& info, StepValues& step) {
  if (threadIdx.x == 0) {
    if (info.prepared != nullptr) {
      step = *info.prepared;
    } else {
      Op::values(info, step.values);
      step.is_skipped = read(info.skip, 0) != 0;
    }
  }
  __syncthreads();
}

template <class Op>
__device__ bool is_in_place(const ListTensor& of) {
  bool is = true;
  for (int out = 0; out < Op::kOut; ++out) is &= of.parts[source_of(out)] == of.parts[Op::kIn + out];
  return is;
}

/// Updates N elements; one at a time, offsets may differ.
template <class Op, class T, int N>
__device__ void update(const ListTensor& of, const std::int64_t (&at)[Op::kIn + Op::kOut],
                       const typename Op::template Typed<T>& step, bool is_skipped) {
  T x[Op::kIn][N];
#pragma unroll
  for (int part = 0; part < Op::kIn; ++part) {
    if constexpr (N == 1) {
      x[part][0] = load<T>(of.parts[part], of.dtypes[part], at[part]);
    } else {
      load_vector<N>(x[part], of.parts[part], of.dtypes[part], at[part]);
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (is_skipped) break;
    T one[Op::kIn];
#pragma unroll
    for (int part = 0; part < Op::kIn; ++part) one[part] = x[part][k];
    step(one);
#pragma unroll
    for (int part = 0; part < Op::kIn; ++part) x[part][k] = one[part];
  }
#pragma unroll
  for (int out = 0; out < Op::kOut; ++out) {
    const int part = Op::kIn + out;
    if constexpr (N == 1) {
      store(x[source_of(out)][0], of.parts[part], of.dtypes[part], at[part]);
    } else {
      store_vector<N>(x[source_of(out)], of.parts[part], of.dtypes[part], at[part]);
    }
  }
}

/// Updates the elements [begin, end) of a tensor of any dtypes, N at a time.
template <class Op, class T, int N>
__device__ void update_any(const ListTensor& of, std::int64_t begin, std::int64_t end, const StepValues& step) {
  const typename Op::template Typed<T> typed(step.values);
  std::int64_t at[Op::kIn + Op::kOut];
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * N; i < end; i += std::int64_t{kBlock} * N) {
    if (i + N <= end) {
#pragma unroll
      for (std::int64_t& part : at) part = i;
      update<Op, T, N>(of, at, typed, step.is_skipped);
      continue;
    }
    for (std::int64_t k = i; k < end; ++k) {
#pragma unroll
      for (std::int64_t& part : at) part = k;
      update<Op, T, 1>(of, at, typed, step.is_skipped);
    }
  }
}

// Four elements as they are in memory: 16 bytes of f32, or 8 of bf16.
template <bool kIsHalf>
__device__ uint4 load_four(const std::byte* from, std::int64_t at) {
  if constexpr (kIsHalf) {
    const uint2 half = *reinterpret_cast<const uint2*>(from + at * 2);
    return {half.x, half.y, 0, 0};
  } else {
    return *reinterpret_cast<const uint4*>(from + at * 4);
  }
}
template <bool kIsHalf>
__device__ float one_of(const uint4& four, int k) {
  const std::uint32_t words[] = {four.x, four.y, four.z, four.w};
  if constexpr (kIsHalf) {
    const std::uint32_t word = words[k / 2];
    return __uint_as_float(k % 2 == 0 ? word << 16 : word & 0xffff0000);
  } else {
    return __uint_as_float(words[k]);
  }
}
template <bool kIsHalf>
__device__ void store_four(const float (&x)[4], std::byte* to, std::int64_t at) {
  if constexpr (kIsHalf) {
    std::uint32_t bits[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) bits[k] = narrow_to_bf16(x[k]).bits();
    *reinterpret_cast<uint2*>(to + at * 2) = {bits[0] | bits[1] << 16, bits[2] | bits[3] << 16};
  } else {
    *reinterpret_cast<float4*>(to + at * 4) = {x[0], x[1], x[2], x[3]};
  }
}

/// Updates elements whose inputs are f32, except input kHalf, which is bf16. All loads of a round are in flight before
/// the first is used.
template <class Op, int kHalf>
__device__ void update_known(const ListTensor& of, std::int64_t begin, std::int64_t end, const StepValues& step) {
  // Vectors of four elements of each input that a thread has in flight. With many inputs, few, so that more blocks are
  // resident and the last round of a tensor leaves few threads idle.
  constexpr int kVectors = Op::kIn == 4 ? 2 : 4;
  const typename Op::template Typed<float> typed(step.values);
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * 4; i + 4 <= end; i += kVectors * kListUnit) {
    uint4 raw[kVectors][Op::kIn];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = i + v * kListUnit;
      if (at + 4 > end) continue;
#pragma unroll
      for (int part = 0; part < Op::kIn; ++part) {
        raw[v][part] = part == kHalf ? load_four<true>(of.parts[part], at) : load_four<false>(of.parts[part], at);
      }
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = i + v * kListUnit;
      if (at + 4 > end) continue;
      float results[Op::kOut][4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float one[Op::kIn];
#pragma unroll
        for (int part = 0; part < Op::kIn; ++part) {
          one[part] = part == kHalf ? one_of<true>(raw[v][part], k) : one_of<false>(raw[v][part], k);
        }
        if (!step.is_skipped) typed(one);
#pragma unroll
        for (int out = 0; out < Op::kOut; ++out) results[out][k] = one[source_of(out)];
      }
#pragma unroll
      for (int out = 0; out < Op::kOut; ++out) {
        if (source_of(out) == kHalf) {
          store_four<true>(results[out], of.parts[Op::kIn + out], at);
        } else {
          store_four<false>(results[out], of.parts[Op::kIn + out], at);
        }
      }
    }
  }
  const std::int64_t rest = (end - begin) % 4;  // an incomplete vector at the end of a tensor
  if (threadIdx.x < rest) {
    std::int64_t at[Op::kIn + Op::kOut];
#pragma unroll
    for (std::int64_t& part : at) part = end - rest + threadIdx.x;
    update<Op, float, 1>(of, at, typed, step.is_skipped);
  }
}

/// Calls body(tensor, begin, end) for the elements of this block.
template <class Op, class F>
__device__ void for_own_elements(const TensorLists& lists, bool is_skipped, const F& body) {
  std::int64_t unit = std::int64_t{lists.units} * blockIdx.x / gridDim.x;
  const std::int64_t last = std::int64_t{lists.units} * (blockIdx.x + 1) / gridDim.x;
  if (unit == last) return;
  for (int which = tensor_of(lists, unit); unit < last; ++which) {
    const std::int64_t first = lists.first_unit[which];
    const std::int64_t next = which + 1 < lists.count ? lists.first_unit[which + 1] : lists.units;
    const std::int64_t stop = next < last ? next : last;
    const ListTensor& of = lists.tensors[which];
    const std::int64_t end = (stop - first) * kListUnit;
    if (!is_skipped || !is_in_place<Op>(of)) body(of, (unit - first) * kListUnit, end < of.numel ? end : of.numel);
    unit = stop;
  }
}

template <class Op, int kHalf>
__device__ void run_known(const TensorLists& lists) {
  __shared__ StepValues step;
  prepare<Op>(lists.info, step);
  for_own_elements<Op>(lists, step.is_skipped, [&](const ListTensor& of, std::int64_t begin, std::int64_t end) {
    update_known<Op, kHalf>(of, begin, end, step);
  });
}

template <class Op>
__device__ void run_any(const TensorLists& lists) {
  __shared__ StepValues step;
  prepare<Op>(lists.info, step);
  for_own_elements<Op>(lists, step.is_skipped, [&](const ListTensor& of, std::int64_t begin, std::int64_t end) {
    if (of.dtypes[0] == DType::kF64) {
      update_any<Op, double, 1>(of, begin, end, step);
    } else if (of.has_vectors) {
      update_any<Op, float, 4>(of, begin, end, step);
    } else {
      update_any<Op, float, 1>(of, begin, end, step);
    }
  });
}

template <class Op, class T>
__device__ void update_strided(const StridedTensor& of, const StepValues& step) {
  const typename Op::template Typed<T> typed(step.values);
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < of.tensor.numel;
       i += std::int64_t{gridDim.x} * kBlock) {
    std::int64_t at[Op::kIn + Op::kOut];
    offsets_of(of, i, at);
    update<Op, T, 1>(of.tensor, at, typed, step.is_skipped);
  }
}
template <class Op>
__device__ void run_strided(const StridedTensor& of) {
  __shared__ StepValues step;
  prepare<Op>(of.info, step);
  if (of.tensor.dtypes[0] == DType::kF64) {
    update_strided<Op, double>(of, step);
  } else {
    update_strided<Op, float>(of, step);
  }
}

}  // namespace

/// Computes what all elements of a step of AdamW share, and counts the step. Two threads, one per power.
extern "C" __global__ void adamw_step(const __grid_constant__ AdamWStep of) {
  const double* how = of.info.attributes;
  const bool is_first = threadIdx.x == 0;
  const std::int64_t done = *of.step;
  __syncthreads();  // new_step may be step
  StepValues& step = *of.values;
  const double rest = 1 - pow(is_first ? how[0] : how[1], static_cast<double>(done + 1));
  if (!is_first) {
    step.values[6] = 1 / sqrt(rest);
    return;
  }
  const double rate = read(of.info.learning_rate, 0);
  const bool is_skipped = read(of.info.skip, 0) != 0;
  step.is_skipped = is_skipped;
  step.values[0] = how[0];
  step.values[1] = how[1];
  step.values[2] = how[2];
  step.values[3] = 1 - rate * how[3];
  step.values[4] = read(of.info.clip, 1);
  step.values[5] = rate / rest;
  *of.new_step = done + (is_skipped ? 0 : 1);
}

// The kernels of an operation. `blocks` blocks are resident per multiprocessor. The kernel <name>_mixed reads the input
// `half` as bf16.
#define TESSERA_UPDATE_KERNELS(name, blocks, half, ...)                                                               \
  extern "C" __global__ void __launch_bounds__(kBlock, blocks) name##_f32(const __grid_constant__ TensorLists of) {   \
    run_known<__VA_ARGS__, -1>(of);                                                                                   \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kBlock, blocks) name##_mixed(const __grid_constant__ TensorLists of) { \
    run_known<__VA_ARGS__, half>(of);                                                                                 \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kBlock, blocks) name##_any(const __grid_constant__ TensorLists of) {   \
    run_any<__VA_ARGS__>(of);                                                                                         \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(kBlock) name##_strided(const __grid_constant__ StridedTensor of) {     \
    run_strided<__VA_ARGS__>(of);                                                                                     \
  }
TESSERA_UPDATE_KERNELS(add, 3, 1, Add)
TESSERA_UPDATE_KERNELS(mul, 4, 0, Mul)
TESSERA_UPDATE_KERNELS(sgd, 3, 1, Sgd<false>)
TESSERA_UPDATE_KERNELS(sgd_momentum, 2, 1, Sgd<true>)
TESSERA_UPDATE_KERNELS(lion, 2, 1, Lion)
TESSERA_UPDATE_KERNELS(adamw, 4, 1, AdamW)

}  // namespace tessera::ops::cuda
