#include "tessera/ops/nn/cuda/attention_form.h"

#include <algorithm>
#include <cstdint>

namespace tessera::ops::cuda {
namespace {

constexpr std::int64_t kWord = 8;  // elements of 2 bytes
constexpr std::int64_t kMaxWidth = 256;
constexpr std::int64_t kMinSplitKeys = 256;
constexpr std::int64_t kMaxSplits = 64;

bool is_half(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

}  // namespace

AttentionForm attention_form(const AttentionArgs& of) {
  if (!is_half(of.q.dtype)) return AttentionForm::kPlain;
  for (const std::int64_t width : {of.d, of.e}) {
    if (width <= 0 || width > kMaxWidth || width % kWord != 0) return AttentionForm::kPlain;
  }
  // In the backward pass, a kernel of its own reads `out`.
  const bool is_backward = of.grad.data != nullptr;
  const AttentionTensor& out = is_backward ? of.grad : of.out;
  for (const AttentionTensor* x : {&of.q, &of.k, &of.v, &out, &of.dq, &of.dk, &of.dv}) {
    if (x->data == nullptr) continue;
    const bool is_in_words = x->col == 1 && x->batch % kWord == 0 && x->head % kWord == 0 && x->row % kWord == 0 &&
                             reinterpret_cast<std::uintptr_t>(x->data) % 16 == 0;
    if (x->dtype != of.q.dtype || !is_in_words) return AttentionForm::kPlain;
  }
  return AttentionForm::kTensorCores;
}

std::int32_t attention_splits(std::int64_t blocks, std::int64_t keys, std::int64_t multiprocessors) {
  const std::int64_t most = std::clamp<std::int64_t>(keys / kMinSplitKeys, 1, kMaxSplits);
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(2 * multiprocessors / std::max<std::int64_t>(blocks, 1), 1, most));
}

}  // namespace tessera::ops::cuda
