// Casts: a formula that returns its input. Elements are read as a type that can hold every element of the source dtype:
// its compute type, u64 itself if the target is floating, or complex doubles if c128 is involved.
#include "tessera/ops/pointwise/cuda/pointwise.cuh"

namespace tessera::ops::cuda {
namespace {

struct cast_formula {
  static constexpr int kInputs = 1;
  static constexpr unsigned kTypes = kFloats;
  template <class D, class V>
  static HWY_INLINE V vec(D, V x) {
    return x;
  }
};

}  // namespace

// Threads that store 16 bytes each write whole lines of memory: two stores of 16 bytes of a thread would be apart.
#define TESSERA_DENSE_CAST(suffix, From, To, N)                                                                \
  extern "C" __global__ void __launch_bounds__(256, 4) cast_##suffix(const __grid_constant__ DenseCall call) { \
    Dense<cast_formula, From, To, N>::run(call);                                                               \
  }
TESSERA_DENSE_CAST(f32_bf16, float, bf16, 8)
TESSERA_DENSE_CAST(bf16_f32, bf16, float, 4)

extern "C" __global__ void __launch_bounds__(256, 3) cast_rows(const __grid_constant__ WalkCall call) {
  run_rows<cast_formula>(call);
}

#define TESSERA_CAST(suffix, Type)                                                      \
  extern "C" __global__ void cast_any_##suffix(const __grid_constant__ WalkCall call) { \
    run_any<Type>(call, [](const Type(&x)[kMaxInputs]) { return x[0]; });               \
  }
TESSERA_CAST(f32, float)
TESSERA_CAST(f64, double)
TESSERA_CAST(i64, std::int64_t)
TESSERA_CAST(u64, std::uint64_t)
TESSERA_CAST(c64, Complex<float>)
TESSERA_CAST(c128, Complex<double>)

}  // namespace tessera::ops::cuda
