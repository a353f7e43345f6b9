#include "tessera/train/flops.h"

namespace tessera::train {
namespace {

// Elements of the matrices of one block: query, key and value, the attention output, and three of the gated layer.
std::int64_t block_matrices(const ModelConfig& model) {
  const std::int64_t kv_width = model.width / model.heads * model.kv_heads;
  return 2 * model.width * model.width + 2 * model.width * kv_width + 3 * model.width * model.hidden;
}

}  // namespace

Flops flops_per_token(const ModelConfig& model) {
  constexpr double kForwardAndBackward = 3;
  const auto matrices = static_cast<double>(model.layers * block_matrices(model) + model.width * model.vocabulary);
  // Scores and the sum of values: a multiplication and an addition each, per element of the width and key.
  const auto attention = static_cast<double>(4 * model.layers * model.sequence * model.width);
  return {.causal = kForwardAndBackward * (2 * matrices + attention / 2),
          .full = kForwardAndBackward * (2 * matrices + attention)};
}

std::int64_t parameter_count(const ModelConfig& model) {
  const std::int64_t embedding = model.width * model.vocabulary;
  const std::int64_t norms = (2 * model.layers + 1) * model.width;
  return embedding * (model.tied ? 1 : 2) + norms + model.layers * block_matrices(model);
}

}  // namespace tessera::train
