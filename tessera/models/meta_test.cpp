// Models without storage.
#include "tessera/nn/meta.h"

#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/memory/allocator.h"
#include "tessera/models/llama.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/create/create.h"

namespace tessera::models {
namespace {

nn::ModelConfig preset(std::string_view name) {
  for (const nn::Preset& each : nn::model_family("llama").presets) {
    if (each.name != name) continue;
    return {.width = each.width,
            .layers = each.layers,
            .heads = each.heads,
            .kv_heads = each.kv_heads,
            .hidden = each.hidden,
            .vocabulary = each.vocabulary,
            .sequence = each.sequence};
  }
  return {};
}

TEST(ModelsWithoutStorage, EightBillionParametersAreInitialized) {
  const nn::Meta guard;
  const auto model = nn::model_family("llama").create(preset("8b"));
  const std::int64_t count = model->module().parameter_count();
  EXPECT_NEAR(static_cast<double>(count) / 1e9, 8.03, 0.01);
  const memory::Allocator allocator = memory::Allocator::of(tensor::meta_device());
  const auto live = static_cast<double>(allocator.statistics().now.live_nbytes);
  EXPECT_NEAR(live / (4 * static_cast<double>(count)), 1, 1e-3);
}

TEST(ModelsWithoutStorage, RunForwardAndBackward) {
  const nn::Meta guard;
  const auto model = nn::model_family("llama").create(preset("1b"));
  const Tensor tokens = ops::zeros({2, 128}, {.dtype = DType::kI32});
  const Tensor loss = model->loss(tokens, tokens, 0);
  EXPECT_EQ(loss.shape(), Shape());
  autograd::backward(loss);
  for (const Tensor& leaf : model->module().parameters()) EXPECT_EQ(autograd::grad(leaf).shape(), leaf.shape());
}

}  // namespace
}  // namespace tessera::models
