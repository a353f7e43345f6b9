#include "tessera/models/gpt2.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/packing.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::models {
namespace {

// The last matrices of a block are smaller by sqrt(2 layers), so that the residual stream does not grow with depth.
nn::Init last_init(const Gpt2Config& config) {
  return nn::Init::normal(nn::Init().scale / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

nn::AttentionOptions attention_of(const Gpt2Config& config) {
  return {.width = config.width,
          .heads = config.heads,
          .bias = true,
          .out_bias = true,
          .init = nn::Init::normal(nn::Init().scale),
          .out_init = last_init(config)};
}

nn::MlpOptions mlp_of(const Gpt2Config& config) {
  return {.width = config.width,
          .hidden = config.hidden,
          .activation = config.activation,
          .bias = true,
          .init = nn::Init::normal(nn::Init().scale),
          .out_init = last_init(config)};
}

}  // namespace

Gpt2Block::Gpt2Block(const Gpt2Config& config)
    : ln_1(add("ln_1", nn::LayerNorm(config.width, {.eps = config.norm_eps}))),
      attn(add("attn", nn::Attention(attention_of(config)))),
      ln_2(add("ln_2", nn::LayerNorm(config.width, {.eps = config.norm_eps}))),
      mlp(add("mlp", nn::Mlp(mlp_of(config)))),
      attention_dropout(add("attention_dropout", nn::Dropout(config.dropout))),
      mlp_dropout(add("mlp_dropout", nn::Dropout(config.dropout))) {}

Tensor Gpt2Block::forward(const Tensor& x, nn::KvCache* cache) const {
  const Tensor y = ops::add(x, attention_dropout(attn(ln_1(x), cache)));
  return ops::add(y, mlp_dropout(mlp(ln_2(y))));
}

Gpt2::Gpt2(const Gpt2Config& config)
    : wte(add("wte", nn::Embedding(config.vocabulary, config.width, {.init = nn::Init::normal(0.02)}))),
      wpe(add("wpe", nn::Embedding(config.sequence, config.width,
                                   {.init = nn::Init::normal(0.01), .meaning = {"position", "embed"}}))),
      dropout(add("dropout", nn::Dropout(config.dropout))),
      h(add("h", nn::ModuleList<Gpt2Block>(config.layers, [&](std::int64_t /*i*/) { return Gpt2Block(config); }))),
      ln_f(add("ln_f", nn::LayerNorm(config.width, {.eps = config.norm_eps}))) {}

// Returns [sequence, width], or [batch, sequence, width] if the rows have different positions.
Tensor Gpt2::positions(const Tensor& tokens, nn::KvCache* cache) const {
  if (const Tensor& packed = nn::packing(*this).positions)
    return constrain(wpe(packed), {"batch", "sequence", "embed"});
  const std::vector<std::int64_t> starts =
      cache == nullptr ? std::vector<std::int64_t>{0} : cache->starts(tokens.size(0));
  const auto [least, most] = std::ranges::minmax(starts);
  const std::int64_t end = most + tokens.size(1);
  TESSERA_CHECK(end <= wpe.weight.shape()[0], "gpt2: sequences must have at most ", wpe.weight.shape()[0],
                " tokens, got ", end);
  if (least != most)
    return constrain(wpe(nn::positions_from(starts, tokens.size(1), tokens)), {"batch", "sequence", "embed"});
  const ops::CreateOptions options{
      .device = tokens.has_layout() ? device::Device() : tokens.device(),
      .layout = tokens.has_layout() ? layout::Layout::replicated(tokens.layout().mesh()) : layout::Layout()};
  return constrain(wpe(ops::arange(most, end, 1, options)), {"sequence", "embed"});
}

Tensor Gpt2::hidden(const Tensor& tokens, nn::KvCache* cache) const {
  const Tensor embedded = constrain(wte(tokens), {"batch", "sequence", "embed"});
  Tensor x = dropout(ops::add(embedded, positions(tokens, cache)));
  for (const Gpt2Block& block : h) x = block(x, cache);
  return constrain(ln_f(x), {"batch", "", "embed"});
}

Tensor Gpt2::head(const Tensor& rows) const { return ops::linear(rows, wte.weight); }

Tensor Gpt2::forward(const Tensor& tokens, nn::KvCache* cache) const { return head(hidden(tokens, cache)); }

Tensor Gpt2::loss(const Tensor& tokens, const Tensor& targets, double count) const {
  return nn::token_loss(*this, hidden(tokens), wte.weight, targets, count);
}

namespace {

std::shared_ptr<nn::LanguageModel> create(const nn::ModelConfig& config) {
  TESSERA_CHECK(config.kv_heads == config.heads, "model.kv_heads: must equal model.heads (", config.heads,
                ") in gpt2, got ", config.kv_heads);
  TESSERA_CHECK(config.head_width == 0 || config.head_width * config.heads == config.width,
                "model.head_width: must be 0 or model.width / model.heads in gpt2, got ", config.head_width);
  TESSERA_CHECK(!config.qk_norm && config.window == 0 && config.rope_factor == 1,
                "model.qk_norm, model.window, model.rope_factor: require model.family llama, got gpt2");
  return nn::language_model(Gpt2({.width = config.width,
                                  .layers = config.layers,
                                  .heads = config.heads,
                                  .hidden = config.hidden,
                                  .vocabulary = config.vocabulary,
                                  .sequence = config.sequence,
                                  .activation = config.activation == "auto" ? "gelu_tanh" : config.activation,
                                  .dropout = config.dropout,
                                  .norm_eps = config.norm_eps}));
}

[[maybe_unused]] const bool kIsRegistered =
    nn::register_model_family({.name = "gpt2",
                               .presets = {{"tiny", 128, 4, 4, 4, 512, 256, 128},
                                           {"124m", 768, 12, 12, 12, 3072, 50257, 1024},
                                           {"350m", 1024, 24, 16, 16, 4096, 50257, 1024},
                                           {"774m", 1280, 36, 20, 20, 5120, 50257, 1024},
                                           {"1.5b", 1600, 48, 25, 25, 6400, 50257, 1024}},
                               .create = create});

}  // namespace
}  // namespace tessera::models
