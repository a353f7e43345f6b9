// Products on a GPU against the same product by direct calls of cuBLASLt, on the same operands in the same run.
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/cuda/cublaslt.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

constexpr int kCalls = 20;
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

// c = a b for square matrices by rows: by columns, c' = b' a'. Descriptors are made once and never destroyed.
struct Direct {
  Direct(std::int64_t n, cudaDataType_t type, const Tensor& left, const Tensor& right, const Tensor& result,
         const device::Stream& on)
      : a(left), b(right), c(result), stream(on) {
    workspace = empty({static_cast<std::int64_t>(kWorkspace)}, {DType::kU8, c.device()});
    const auto size = static_cast<std::uint64_t>(n);
    // Inside, for the context, which then stays current for this thread.
    stream.launch_native([&](void*) {
      cublasLtMatmulPreference_t preference = nullptr;
      TESSERA_CUBLASLT(cublasLtCreate, &handle);
      TESSERA_CUBLASLT(cublasLtMatmulDescCreate, &desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
      TESSERA_CUBLASLT(cublasLtMatrixLayoutCreate, &layout, type, size, size, n);
      TESSERA_CUBLASLT(cublasLtMatmulPreferenceCreate, &preference);
      TESSERA_CUBLASLT(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                       &kWorkspace, sizeof kWorkspace);
      cublasLtMatmulHeuristicResult_t best = {};
      int found = 0;
      TESSERA_CUBLASLT(cublasLtMatmulAlgoGetHeuristic, handle, desc, layout, layout, layout, layout, preference, 1,
                       &best, &found);
      TESSERA_CHECK(found > 0, "cuBLASLt has no algorithm for this product");
      algorithm = best.algo;
      cuda::cublaslt().cublasLtMatmulPreferenceDestroy(preference);
    });
  }
  void run() const {
    const float one = 1;
    const float zero = 0;
    TESSERA_CUBLASLT(cublasLtMatmul, handle, desc, &one, b.data(), layout, a.data(), layout, &zero, c.data(), layout,
                     c.data(), layout, &algorithm, workspace.data(), kWorkspace,
                     static_cast<cudaStream_t>(stream.native()));
  }

  Tensor a, b, c, workspace;
  device::Stream stream;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
};

void measure(bench::Context& context, const std::string& name, std::int64_t n, DType dtype) {
  if (!context.wants(name)) return;
  const device::Device device = device::Device::get("cuda");
  const device::Stream& stream = tensor::current_stream(device);
  const Tensor a = randn({n, n}, {dtype, device});
  const Tensor b = randn({n, n}, {dtype, device});
  const Tensor c = empty({n, n}, {dtype, device});
  const Direct direct(n, dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF, a, b, c, stream);
  const auto size = static_cast<double>(n);
  context.measure({.name = name,
                   .unit = "G/s",
                   .per = 2 * size * size * size * kCalls,
                   .ours =
                       [&] {
                         for (int i = 0; i < kCalls; ++i) mm(a, b, {.out = c});
                         stream.synchronize();
                       },
                   .reference_name = "cublasLtMatmul",
                   .reference =
                       [&] {
                         for (int i = 0; i < kCalls; ++i) direct.run();
                         stream.synchronize();
                       },
                   .must_ratio = 0.95,
                   .calls = 1});
}

TESSERA_BENCH(matmul_on_cuda) {
  try {
    const device::Device device = device::Device::get("cuda");
    context.describe_machine("gpu", device.properties().description);
    (void)cuda::cublaslt();
  } catch (const Error& error) {
    context.skip(error.message());
    return;
  }
  measure(context, "cuda_matmul_4096_bf16", 4096, DType::kBF16);
  measure(context, "cuda_matmul_1024_f32", 1024, DType::kF32);
}

}  // namespace
}  // namespace tessera::ops
