#include "tessera/ops/matrix/cuda/lt_gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/matrix/cuda/cublaslt.h"

namespace tessera::ops::cuda {
namespace {

// Recommended size for Hopper. Only the part that the selected algorithm needs is allocated.
constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;
// A larger alignment has no benefit.
constexpr std::uint32_t kMaxAlignment = 256;

struct Types {
  cudaDataType_t element;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

Types types_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::kBF16: return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::kF16: return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::kC64: return {CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F};
    default: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
  }
}

// 1 and 0 in the type of the scales.
struct Scales {
  explicit Scales(DType dtype) : is_double(dtype == DType::kF64) {}
  [[nodiscard]] const void* one() const { return is_double ? static_cast<const void*>(&one_f64) : one_f32; }
  [[nodiscard]] const void* zero() const { return is_double ? static_cast<const void*>(&zero_f64) : zero_f32; }

  bool is_double;
  double one_f64 = 1, zero_f64 = 0;
  float one_f32[2] = {1, 0};  // also of complex numbers
  float zero_f32[2] = {0, 0};
};

std::uint32_t alignment_of(const std::byte* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return 1U << std::min<int>(std::countr_zero(address), std::countr_zero(kMaxAlignment));
}

// Everything that the choice of an algorithm depends on.
using Key = std::array<std::int64_t, 17>;
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t part : key) {
      hash = (std::rotl(hash, 23) ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
    }
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};
Key key_of(const LtProduct& of) {
  return {of.m,
          of.n,
          of.k,
          of.batch,
          static_cast<std::int64_t>(of.dtype) << 8 | static_cast<std::int64_t>(of.c_dtype),
          of.a.stride,
          of.a.batch_stride,
          of.a.is_transposed,
          alignment_of(of.a.data),
          of.b.stride,
          of.b.batch_stride,
          of.b.is_transposed,
          alignment_of(of.b.data),
          of.c.stride,
          of.c.batch_stride,
          alignment_of(of.c.data),
          of.is_added};
}

struct DestroyDesc {
  void operator()(cublasLtMatmulDesc_t desc) const { cublaslt().cublasLtMatmulDescDestroy(desc); }
};
struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { cublaslt().cublasLtMatrixLayoutDestroy(layout); }
};
struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublaslt().cublasLtMatmulPreferenceDestroy(preference);
  }
};
using Desc = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDesc>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

Layout make_layout(const LtMatrix& matrix, DType dtype, std::int64_t rows, std::int64_t cols, const LtProduct& of) {
  if (matrix.is_transposed) std::swap(rows, cols);
  cublasLtMatrixLayout_t made = nullptr;
  TESSERA_CUBLASLT(cublasLtMatrixLayoutCreate, &made, types_of(dtype).element, static_cast<std::uint64_t>(rows),
                   static_cast<std::uint64_t>(cols), matrix.stride);
  Layout layout(made);
  const auto batch = static_cast<std::int32_t>(of.batch);
  if (batch == 1) return layout;
  TESSERA_CUBLASLT(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
  TESSERA_CUBLASLT(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                   &matrix.batch_stride, sizeof matrix.batch_stride);
  return layout;
}

Desc make_desc(const LtProduct& of) {
  const Types types = types_of(of.dtype);
  cublasLtMatmulDesc_t made = nullptr;
  TESSERA_CUBLASLT(cublasLtMatmulDescCreate, &made, types.compute, types.scale);
  Desc desc(made);
  const auto set = [&](cublasLtMatmulDescAttributes_t which, bool is_transposed) {
    const cublasOperation_t operation = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    TESSERA_CUBLASLT(cublasLtMatmulDescSetAttribute, made, which, &operation, sizeof operation);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, of.a.is_transposed);
  set(CUBLASLT_MATMUL_DESC_TRANSB, of.b.is_transposed);
  return desc;
}

Preference make_preference(const LtProduct& of) {
  cublasLtMatmulPreference_t made = nullptr;
  TESSERA_CUBLASLT(cublasLtMatmulPreferenceCreate, &made);
  Preference preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    TESSERA_CUBLASLT(cublasLtMatmulPreferenceSetAttribute, made, which, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kMaxWorkspace));
  // Parts of a sum are kept in the compute type and added in order. cuBLASLt 12.8 to 13.1 loses the end of some sums
  // that are split into parts if their length is not a multiple of 64.
  const bool may_split = of.k % 64 == 0;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(may_split ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(of.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(of.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(of.c.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(of.c.data));
  return preference;
}

// The algorithm for one kind of product.
struct Plan {
  Plan(cublasLtHandle_t handle, const LtProduct& of)
      : desc(make_desc(of)),
        a(make_layout(of.a, of.dtype, of.m, of.k, of)),
        b(make_layout(of.b, of.dtype, of.k, of.n, of)),
        c(make_layout(of.c, of.c_dtype, of.m, of.n, of)) {
    const Preference preference = make_preference(of);
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    const cublasStatus_t status = cublaslt().cublasLtMatmulAlgoGetHeuristic(
        handle, desc.get(), a.get(), b.get(), c.get(), c.get(), preference.get(), 1, &best, &found);
    TESSERA_CHECK_AS(NotSupported, status == CUBLAS_STATUS_SUCCESS && found > 0,
                     "cuBLASLt has no algorithm for a product of ", of.dtype, " [", of.m, ", ", of.k, "] and [", of.k,
                     ", ", of.n, "], batch ", of.batch, ", column-major strides ", of.a.stride, ", ", of.b.stride,
                     " and ", of.c.stride, " (", cublaslt().cublasLtGetStatusString(status),
                     "); try contiguous operands");
    algorithm = best.algo;
    workspace_nbytes = best.workspaceSize;
  }

  Desc desc;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t workspace_nbytes = 0;
  mutable std::atomic<bool> is_loaded{false};  // its code, by a launch
};

// State of one device for the life of the process: graphs may use it until the end.
class LtDevice {
 public:
  // Returns the plan of a product, created at the first call. `stream` is any stream of the device, for its context.
  std::shared_ptr<const Plan> plan(const device::Stream& stream, const LtProduct& of) {
    const Key key = key_of(of);
    {
      const std::lock_guard lock(mutex_);
      const auto at = plans_.find(key);
      if (at != plans_.end()) return at->second;
    }
    std::shared_ptr<const Plan> made;
    // Launches nothing, but needs the context and may load code.
    stream.launch_native(
        [&](void*) {
          std::call_once(has_handle_, [&] { TESSERA_CUBLASLT(cublasLtCreate, &handle_); });
          made = std::make_shared<const Plan>(handle_, of);
        },
        {}, true);
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMaxPlans) plans_.clear();
    return plans_.try_emplace(key, std::move(made)).first->second;
  }
  // Valid only after plan().
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }

 private:
  std::once_flag has_handle_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const Plan>, KeyHash> plans_;
};

LtDevice& lt_device(const device::Device& device) {
  static std::mutex mutex;
  static auto& devices = *new std::map<const device::DeviceState*, std::unique_ptr<LtDevice>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<LtDevice>& of = devices[device.state().get()];
  if (of == nullptr) of = std::make_unique<LtDevice>();
  return *of;
}

}  // namespace

bool is_lt_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         dtype == DType::kC64;
}

void launch_lt_gemm(const tensor::KernelCall& call, const LtProduct& product) {
  TESSERA_CHECK_AS(NotSupported, product.batch <= INT32_MAX, call.op.name(),
                   ": a batch must have at most 2^31 - 1 products for cuBLASLt, got ", product.batch, "; split it");
  const device::Stream& stream = call.stream();
  LtDevice& device = lt_device(call.where.context->device);
  const std::shared_ptr<const Plan> plan = device.plan(stream, product);
  const Scales scales(product.dtype);
  // Released at the end of this call: the next use is ordered after this launch.
  const memory::Buffer workspace = scratch(call, plan->workspace_nbytes);
  stream.launch_native(
      [&](void* native) {
        TESSERA_CUBLASLT(cublasLtMatmul, device.handle(), plan->desc.get(), scales.one(), product.a.data, plan->a.get(),
                         product.b.data, plan->b.get(), product.is_added ? scales.one() : scales.zero(), product.c.data,
                         plan->c.get(), product.c.data, plan->c.get(), &plan->algorithm, workspace.data(),
                         plan->workspace_nbytes, static_cast<cudaStream_t>(native));
      },
      {.label = call.op.name()}, !plan->is_loaded.load(std::memory_order_relaxed));
  plan->is_loaded.store(true, std::memory_order_relaxed);
}

}  // namespace tessera::ops::cuda
