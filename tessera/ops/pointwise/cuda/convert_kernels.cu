// Casts: a pointwise row that returns its input. Elements are read as a type that can hold every element of the source
// dtype: its compute type, u64 itself if the target is floating, or complex doubles if c128 is involved.
#include "tessera/ops/pointwise/cuda/pointwise.cuh"

namespace tessera::ops::cuda {
namespace {

struct cast_row {
  static constexpr int kInputs = 1;
  template <class T>
  static constexpr bool kComputes = true;
  template <class T>
  static __device__ T apply(const T (&in)[1]) {
    return in[0];
  }
};

TESSERA_CUDA_FLOAT_KERNELS(cast_f32, cast_row)
TESSERA_CUDA_TYPED_KERNELS(cast_f64, cast_row, double)
TESSERA_CUDA_TYPED_KERNELS(cast_i64, cast_row, std::int64_t)
TESSERA_CUDA_TYPED_KERNELS(cast_u64, cast_row, std::uint64_t)
TESSERA_CUDA_TYPED_KERNELS(cast_c64, cast_row, Complex<float>)
TESSERA_CUDA_TYPED_KERNELS(cast_c128, cast_row, Complex<double>)

}  // namespace
}  // namespace tessera::ops::cuda
