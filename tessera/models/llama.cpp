#include "tessera/models/llama.h"

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::models {
namespace {

const nn::Meaning& residual() {
  static const nn::Meaning meaning{"batch", "sequence", "embed"};
  return meaning;
}

nn::Init last_init(const LlamaConfig& config) {
  return nn::Init::truncated_normal(nn::Init().scale / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

nn::AttentionOptions attention_of(const LlamaConfig& config) {
  nn::AttentionOptions options{.width = config.width,
                               .heads = config.heads,
                               .kv_heads = config.kv_heads,
                               .head_width = config.head_width,
                               .bias = config.qkv_bias,
                               .window = config.window,
                               .rope = config.rope,
                               .out_init = last_init(config)};
  if (config.qk_norm) options.qk_norm_eps = config.norm_eps;
  return options;
}

nn::Linear head_of(const LlamaConfig& config, const nn::Embedding& embedding) {
  if (config.tied) return nn::Linear(embedding.weight);
  return {config.width, config.vocabulary, {.bias = false, .out_meaning = "vocab", .in_meaning = "embed"}};
}

}  // namespace

LlamaBlock::LlamaBlock(const LlamaConfig& config)
    : input_layernorm(add("input_layernorm", nn::RMSNorm(config.width, {.eps = config.norm_eps}))),
      self_attn(add("self_attn", nn::Attention(attention_of(config)))),
      post_attention_layernorm(add("post_attention_layernorm", nn::RMSNorm(config.width, {.eps = config.norm_eps}))),
      mlp(add("mlp", nn::GatedMlp({.width = config.width, .hidden = config.hidden, .out_init = last_init(config)}))),
      attention_dropout(add("attention_dropout", nn::Dropout(config.dropout))),
      mlp_dropout(add("mlp_dropout", nn::Dropout(config.dropout))) {}

Tensor LlamaBlock::forward(const Tensor& x, nn::KvCache* cache) const {
  const Tensor y = ops::add(x, attention_dropout(self_attn(input_layernorm(x), cache)));
  return ops::add(y, mlp_dropout(mlp(post_attention_layernorm(y))));
}

Llama::Llama(const LlamaConfig& config)
    : embed_tokens(add("embed_tokens", nn::Embedding(config.vocabulary, config.width))),
      layers(add("layers",
                 nn::ModuleList<LlamaBlock>(config.layers, [&](std::int64_t /*i*/) { return LlamaBlock(config); }))),
      norm(add("norm", nn::RMSNorm(config.width, {.eps = config.norm_eps}))),
      lm_head(add("lm_head", head_of(config, embed_tokens))) {}

Tensor Llama::hidden(const Tensor& tokens, nn::KvCache* cache) const {
  Tensor x = constrain(embed_tokens(tokens), residual());
  for (const LlamaBlock& block : layers) x = block(x, cache);
  return constrain(norm(x), {"batch", "", "embed"});
}

Tensor Llama::head(const Tensor& rows) const { return lm_head(rows); }

Tensor Llama::forward(const Tensor& tokens, nn::KvCache* cache) const { return head(hidden(tokens, cache)); }

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets, double count) const {
  return nn::token_loss(*this, hidden(tokens), lm_head.weight, targets, count);
}

namespace {

std::shared_ptr<nn::LanguageModel> create(const nn::ModelConfig& config) {
  TESSERA_CHECK(config.activation == "auto" || config.activation == "silu",
                "model.activation: must be auto or silu in llama, got '", config.activation, "'");
  return nn::language_model(Llama({.width = config.width,
                                   .layers = config.layers,
                                   .heads = config.heads,
                                   .kv_heads = config.kv_heads,
                                   .head_width = config.head_width,
                                   .hidden = config.hidden,
                                   .vocabulary = config.vocabulary,
                                   .tied = config.tied,
                                   .qkv_bias = config.qkv_bias,
                                   .qk_norm = config.qk_norm,
                                   .window = config.window,
                                   .dropout = config.dropout,
                                   .norm_eps = config.norm_eps,
                                   .rope = {.base = config.rope_base,
                                            .factor = config.rope_factor,
                                            .original_context = config.rope_context,
                                            .low_turns = config.rope_low_turns,
                                            .high_turns = config.rope_high_turns}}));
}

// tiny and 124m have a `hidden` of 8/3 of the width: three matrices of a gated layer then have as many elements as two
// of an ungated layer of 4 widths. 124m has the sizes of GPT-2, with its vocabulary rounded up to a multiple of 128;
// the others have those of Llama 3. The names of 124m and 1b count parameters with model.tied = true.
[[maybe_unused]] const bool kIsRegistered =
    nn::register_model_family({.name = "llama",
                               .presets = {{"tiny", 128, 4, 4, 2, 352, 256, 128},
                                           {"124m", 768, 12, 12, 12, 2048, 50304, 1024},
                                           {"1b", 2048, 16, 32, 8, 8192, 128256, 4096},
                                           {"8b", 4096, 32, 32, 8, 14336, 128256, 8192},
                                           {"70b", 8192, 80, 64, 8, 28672, 128256, 8192},
                                           {"405b", 16384, 126, 128, 8, 53248, 128256, 8192}},
                               .create = create});

}  // namespace
}  // namespace tessera::models
