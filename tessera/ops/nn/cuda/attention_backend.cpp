#include "tessera/ops/nn/cuda/attention_backend.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace tessera::ops::cuda {
namespace {

constexpr std::int64_t kWord = 8;  // elements of 2 bytes
constexpr std::int64_t kMaxWidth = 256;
// Memory for the gradients of P in a deterministic backward pass.
constexpr double kMaxScores = double{std::int64_t{8} << 30};

const CudnnAttention* registered = nullptr;

// The operands of a call with their sizes [batch, heads, rows, width]; a name for errors.
struct Operand {
  const char* name;
  const AttentionTensor* tensor;
  std::int64_t heads, rows, width;
};

std::string why_not_operand(const AttentionArgs& of, const Operand& x) {
  const AttentionTensor& t = *x.tensor;
  const auto bad = [&](const char* what) { return std::string(x.name) + what; };
  if (t.dtype != of.q.dtype) return bad(" of the dtype of q");
  if (t.col != 1) return bad(" with contiguous rows");
  const auto has_dim = [](std::int64_t size, std::int64_t stride) {
    return size == 1 || (stride > 0 && stride % kWord == 0);
  };
  if (!has_dim(of.batch, t.batch) || !has_dim(x.heads, t.head) || !has_dim(x.rows, t.row)) {
    return bad(" with strides that are positive multiples of 16 bytes");
  }
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 ? "" : bad(" at a multiple of 16 bytes");
}

std::string why_not_operands(const AttentionArgs& of) {
  const bool is_backward = of.grad.data != nullptr;
  const Operand all[] = {{"q", &of.q, of.heads, of.queries, of.d},       {"k", &of.k, of.kv_heads, of.keys, of.d},
                         {"v", &of.v, of.kv_heads, of.keys, of.e},       {"out", &of.out, of.heads, of.queries, of.e},
                         {"grad", &of.grad, of.heads, of.queries, of.e}, {"dq", &of.dq, of.heads, of.queries, of.d},
                         {"dk", &of.dk, of.kv_heads, of.keys, of.d},     {"dv", &of.dv, of.kv_heads, of.keys, of.e}};
  for (const Operand& x : std::span(all).first(is_backward ? 8 : 4)) {
    if (std::string why = why_not_operand(of, x); !why.empty()) return why;
  }
  const AttentionTensor& lse = of.logsumexp;
  const bool is_contiguous = (of.queries == 1 || lse.row == 1) && (of.heads == 1 || lse.head == of.queries) &&
                             (of.batch == 1 || lse.batch == std::int64_t{of.heads} * of.queries);
  return lse.dtype == DType::kF32 && is_contiguous ? "" : "a contiguous f32 logsumexp";
}

std::string why_not_mask(const AttentionArgs& of) {
  if (of.offsets.q != nullptr) return "sequences that are not packed";
  if (of.right > 0) return "no window after the position of the query, unless it is causal";
  if (of.left >= 0 && of.right != 0) return "a causal mask with a window before the position of the query";
  if ((of.is_bottom_right || of.left >= 0) && of.queries > of.keys) {
    return "at least as many keys as queries for this mask";
  }
  return "";
}

}  // namespace

CudnnRegistration::CudnnRegistration(const CudnnAttention& attention) { registered = &attention; }

const CudnnAttention* cudnn_attention() { return registered; }

std::string_view why_no_cudnn() {
  if (registered == nullptr) return "this build has no cuDNN";
  return registered->why_not();
}

std::string why_not_cudnn(const AttentionArgs& of, bool is_deterministic) {
  const bool is_backward = of.grad.data != nullptr;
  if (of.q.dtype != DType::kBF16 && of.q.dtype != DType::kF16) return "bf16 or f16";
  if (std::min({of.batch, of.heads, of.queries, of.keys}) == 0) return "at least one query and key";
  for (const std::int64_t width : {of.d, of.e}) {
    if (width <= 0 || width > kMaxWidth || width % kWord != 0) return "head widths that are multiples of 8 up to 256";
  }
  if (of.d != of.e && std::max(of.d, of.e) > 128 && !(of.d == 192 && of.e == 128)) {
    return "equal head widths, widths up to 128, or 192 and 128";
  }
  if (std::string why = why_not_mask(of); !why.empty()) return why;
  if (is_backward && of.grad_logsumexp.data != nullptr) return "no gradient of logsumexp";
  if (is_backward && of.queries == 1) return "more than one query in the backward pass";
  const double scores = 2.0 * of.batch * of.heads * of.queries * of.keys;
  if (is_backward && is_deterministic && scores > kMaxScores) {
    return "at most 8 GiB for batch * heads * queries * keys * 2 bytes in deterministic mode";
  }
  return why_not_operands(of);
}

bool is_for_cudnn(const AttentionArgs& of) { return of.queries == of.keys; }

bool uses_cudnn(std::string_view op, AttentionBackend backend, std::string_view unavailable, std::string_view why_not) {
  if (backend == AttentionBackend::kTiled) return false;
  if (unavailable.empty() && why_not.empty()) return true;
  if (backend == AttentionBackend::kAuto) return false;
  constexpr std::string_view kWayOut = "; use the backend tiled or auto (TESSERA_CUDA_ATTENTION)";
  TESSERA_CHECK_AS(NotSupported, unavailable.empty(), op, ": the backend cudnn cannot be used: ", unavailable, kWayOut);
  TESSERA_THROW(NotSupported, op, ": the backend cudnn requires ", why_not, kWayOut);
}

}  // namespace tessera::ops::cuda
