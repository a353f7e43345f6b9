// Attention by cuDNN through the headers of its frontend. The library is loaded at run time.
//
// A plan belongs to the sizes, strides, dtype, mask and options of a call. It is built at the first eager call, because
// building loads code, which a capture does not permit.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/nn/cuda/attention_backend.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by the frontend
}  // namespace cudnn_frontend

namespace tessera::ops::cuda {
namespace {

namespace fe = cudnn_frontend;
using tensor::KernelCall;

// The first of these names that can be loaded; otherwise appends the reasons.
void* open_first(std::initializer_list<const char*> names, std::string& tried) {
  for (const char* name : names) {
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* why = ::dlerror();
    tried += (tried.empty() ? "" : "; ") + (why != nullptr ? std::string(why) : name);
  }
  return nullptr;
}

const std::string& why_not() {
  static const std::string why = [] {
    std::string tried;
    // The frontend opens the runtime of CUDA by its name, and then finds the one that is loaded.
    void* runtime = open_first({"libcudart.so.13", "/usr/local/cuda/lib64/libcudart.so.13", "libcudart.so.12",
                                "/usr/local/cuda/lib64/libcudart.so.12"},
                               tried);
    const std::string fix = "); install it, or add its directory to LD_LIBRARY_PATH";
    if (runtime == nullptr) return "the runtime of CUDA was not found (" + tried + fix;
    tried.clear();
    fe::cudnn_dlhandle = open_first(
        {"libcudnn.so.9", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"}, tried);
    return fe::cudnn_dlhandle != nullptr ? std::string() : "cuDNN was not found (" + tried + fix;
  }();
  return why;
}

void check(const KernelCall& call, fe::error_t status, const char* what) {
  TESSERA_CHECK_AS(DeviceError, status.is_good(), call.op.name(), ": cuDNN failed to ", what, ": ",
                   status.get_message(), "; use the backend tiled (TESSERA_CUDA_ATTENTION)");
}
void check(const KernelCall& call, cudnnStatus_t status, const char* what) {
  TESSERA_CHECK_AS(DeviceError, status == CUDNN_STATUS_SUCCESS, call.op.name(), ": cuDNN failed to ", what, ": ",
                   fe::detail::get_error_string(status));
}

// Identifiers of the operands in a plan.
enum Id : std::int64_t { kQ = 1, kK, kV, kOut, kStats, kGrad, kDq, kDk, kDv };

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace_nbytes = 0;
  bool is_loaded = false;  // its code, by a launch
};

// The strides that cuDNN receives: one of a dimension of size 1 must not be 0.
std::vector<std::int64_t> strides_of(const AttentionTensor& x, std::int64_t batch, std::int64_t heads,
                                     std::int64_t rows, std::int64_t width) {
  const std::int64_t row = rows == 1 ? width : x.row;
  const std::int64_t head = heads == 1 ? row * rows : x.head;
  return {batch == 1 ? head * heads : x.batch, head, row, 1};
}

class PlanBuilder {
 public:
  PlanBuilder(const AttentionArgs& args, Plan& to) : of(args), plan(to) {
    const fe::DataType_t type = of.q.dtype == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
    plan.graph.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void forward() {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    set_mask(options);
    const auto [out, stats] = plan.graph.sdpa(input(kQ), input(kK), input(kV), options);
    set_output(out, kOut);
    stats->set_data_type(fe::DataType_t::FLOAT);
    set_output(stats, kStats);
  }
  void backward(bool is_deterministic) {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    set_mask(options);
    options.set_deterministic_algorithm(is_deterministic);
    const auto stats = input(kStats);
    stats->set_data_type(fe::DataType_t::FLOAT);
    const auto [dq, dk, dv] =
        plan.graph.sdpa_backward(input(kQ), input(kK), input(kV), input(kOut), input(kGrad), stats, options);
    set_output(dq, kDq);
    set_output(dk, kDk);
    set_output(dv, kDv);
  }

 private:
  struct Operand {
    std::vector<std::int64_t> sizes, strides;
  };
  [[nodiscard]] Operand operand(Id id) const {
    const auto rows = [&](const AttentionTensor& x, std::int64_t heads, std::int64_t count, std::int64_t width) {
      return Operand{{of.batch, heads, count, width}, strides_of(x, of.batch, heads, count, width)};
    };
    switch (id) {
      case kQ: return rows(of.q, of.heads, of.queries, of.d);
      case kK: return rows(of.k, of.kv_heads, of.keys, of.d);
      case kV: return rows(of.v, of.kv_heads, of.keys, of.e);
      case kOut: return rows(of.out, of.heads, of.queries, of.e);
      case kGrad: return rows(of.grad, of.heads, of.queries, of.e);
      case kDq: return rows(of.dq, of.heads, of.queries, of.d);
      case kDk: return rows(of.dk, of.kv_heads, of.keys, of.d);
      case kDv: return rows(of.dv, of.kv_heads, of.keys, of.e);
      case kStats: break;
    }
    const std::int64_t queries = of.queries;
    return {{of.batch, of.heads, queries, 1}, {of.heads * queries, queries, 1, 1}};
  }

  std::shared_ptr<fe::graph::Tensor_attributes> input(Id id) {
    const Operand x = operand(id);
    return plan.graph.tensor(fe::graph::Tensor_attributes().set_uid(id).set_dim(x.sizes).set_stride(x.strides));
  }
  void set_output(const std::shared_ptr<fe::graph::Tensor_attributes>& tensor, Id id) const {
    const Operand x = operand(id);
    tensor->set_output(true).set_uid(id).set_dim(x.sizes).set_stride(x.strides);
  }
  template <class Options>
  void set_mask(Options& options) const {
    options.set_attn_scale(static_cast<float>(of.scale));
    if (of.right != 0) return;
    options.set_diagonal_alignment(of.is_bottom_right ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                      : fe::DiagonalAlignment_t::TOP_LEFT);
    options.set_diagonal_band_right_bound(0);
    // cuDNN counts the key at the position of the query.
    if (of.left >= 0 && of.left < of.keys) options.set_diagonal_band_left_bound(static_cast<int>(of.left) + 1);
  }

  const AttentionArgs& of;
  Plan& plan;
};

using Key = std::vector<std::int64_t>;

Key key_of(const AttentionArgs& of, bool is_deterministic) {
  Key key = {of.batch,
             of.heads,
             of.kv_heads,
             of.queries,
             of.keys,
             of.d,
             of.e,
             of.left,
             of.right,
             of.is_bottom_right,
             is_deterministic,
             static_cast<std::int64_t>(of.q.dtype),
             std::bit_cast<std::int64_t>(of.scale),
             of.grad.data != nullptr};
  for (const AttentionTensor* x : {&of.q, &of.k, &of.v, &of.out, &of.grad, &of.dq, &of.dk, &of.dv}) {
    key.insert(key.end(), {x->batch, x->head, x->row});
  }
  return key;
}

// Plans and the handle of one device, for the life of the process. One thread at a time uses the handle.
class CudnnDevice {
 public:
  void run(const KernelCall& call, const AttentionArgs& of, bool is_deterministic) {
    const std::lock_guard lock(mutex_);
    Plan& plan = plan_of(call, of, is_deterministic);
    // Released at the end of this call: the next use is ordered after this launch.
    const memory::Buffer workspace = scratch(call, static_cast<std::size_t>(plan.workspace_nbytes));
    std::unordered_map<std::int64_t, void*> pointers = {
        {kQ, of.q.data}, {kK, of.k.data}, {kV, of.v.data}, {kOut, of.out.data}, {kStats, of.logsumexp.data}};
    if (of.grad.data != nullptr) {
      pointers.insert({{kGrad, of.grad.data}, {kDq, of.dq.data}, {kDk, of.dk.data}, {kDv, of.dv.data}});
    }
    const std::string label = call.op.name() + " (cudnn)";
    call.stream().launch_native(
        [&](void* native) {
          check(call, fe::detail::set_stream(handle_, static_cast<cudaStream_t>(native)), "use the stream");
          check(call, plan.graph.execute(handle_, pointers, workspace.data()), "run");
        },
        {.label = label}, !plan.is_loaded);
    plan.is_loaded = true;
  }

 private:
  static constexpr std::size_t kMaxPlans = 1024;

  Plan& plan_of(const KernelCall& call, const AttentionArgs& of, bool is_deterministic) {
    const Key key = key_of(of, is_deterministic);
    if (const auto at = plans_.find(key); at != plans_.end()) return *at->second;
    auto plan = std::make_unique<Plan>();
    // Launches nothing, but needs the context and loads code.
    call.stream().launch_native([&](void* native) { build(call, of, is_deterministic, native, *plan); }, {}, true);
    if (plans_.size() >= kMaxPlans) plans_.clear();
    return *plans_.emplace(key, std::move(plan)).first->second;
  }

  void build(const KernelCall& call, const AttentionArgs& of, bool is_deterministic, void* native, Plan& plan) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    (void)fe::detail::cuda_stream_is_capturing(static_cast<cudaStream_t>(native), &status);
    TESSERA_CHECK_AS(NotSupported, status == cudaStreamCaptureStatusNone, call.op.name(),
                     ": cuDNN must plan these sizes before a capture; make the same call once before it, or use the "
                     "backend tiled (TESSERA_CUDA_ATTENTION)");
    if (handle_ == nullptr) check(call, fe::detail::create_handle(&handle_), "create a handle");
    PlanBuilder builder(of, plan);
    if (of.grad.data != nullptr) {
      builder.backward(is_deterministic);
    } else {
      builder.forward();
    }
    check(call, plan.graph.build(handle_, {fe::HeurMode_t::A}), "plan");
    check(call, plan.graph.get_workspace_size(plan.workspace_nbytes), "plan");
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

void run(const KernelCall& call, const AttentionArgs& of, bool is_deterministic) {
  static std::mutex mutex;
  static auto& devices = *new std::map<const device::DeviceState*, std::unique_ptr<CudnnDevice>>;
  CudnnDevice* device = nullptr;
  {
    const std::lock_guard lock(mutex);
    std::unique_ptr<CudnnDevice>& at = devices[call.where.context->device.state().get()];
    if (at == nullptr) at = std::make_unique<CudnnDevice>();
    device = at.get();
  }
  device->run(call, of, is_deterministic);
}

const CudnnAttention kAttention = {
    .why_not = why_not,
    .forward = [](const KernelCall& call, const AttentionArgs& of) { run(call, of, false); },
    .backward = run};
const CudnnRegistration kRegistration(kAttention);

}  // namespace
}  // namespace tessera::ops::cuda
