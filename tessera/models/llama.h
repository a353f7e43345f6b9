// Llama: a decoder with RMS norms, rotary positions, grouped heads and gated feed-forward layers. Module paths are
// those of published checkpoints, without their prefix "model.".
//
//   x = embed_tokens[tokens]
//   x = x + self_attn(input_layernorm(x))           per layer
//   x = x + mlp(post_attention_layernorm(x))
//   scores = norm(x) lm_head^T
//
// Initial weights are normal with a standard deviation of 0.02, truncated at three deviations. The last matrices of a
// block (o_proj, down_proj) are smaller by sqrt(2 layers), so that the residual stream does not grow with depth.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/layers/attention.h"
#include "tessera/nn/layers/dropout.h"
#include "tessera/nn/layers/embedding.h"
#include "tessera/nn/layers/linear.h"
#include "tessera/nn/layers/mlp.h"
#include "tessera/nn/layers/norm.h"
#include "tessera/nn/module_list.h"

namespace tessera::models {

/// Sizes and variants of a Llama.
struct LlamaConfig {
  std::int64_t width = 0;         ///< Width of the residual stream.
  std::int64_t layers = 0;        ///< Number of blocks.
  std::int64_t heads = 0;         ///< Query heads.
  std::int64_t kv_heads = 0;      ///< Key and value heads.
  std::int64_t head_width = 0;    ///< Width of a head. 0: width / heads.
  std::int64_t hidden = 0;        ///< Width of the feed-forward layer.
  std::int64_t vocabulary = 0;    ///< Number of distinct tokens.
  bool tied = false;              ///< The output head shares the embedding.
  bool qkv_bias = false;          ///< Biases of query, key and value, as in Qwen2.
  bool qk_norm = false;           ///< Norms of query and key heads, as in Qwen3.
  std::int64_t window = 0;        ///< Keys that a query attends to, as in Mistral. 0: all.
  double dropout = 0;             ///< Dropout of the values that a block adds.
  double norm_eps = 1e-5;         ///< Epsilon of the norms.
  ops::RopeAttributes rope = {};  ///< Rotation of queries and keys, with its scaling.
};

/// A block of Llama.
class TESSERA_API LlamaBlock : public nn::Layer<LlamaBlock> {
 public:
  /// Creates the block.
  explicit LlamaBlock(const LlamaConfig& config);
  /// Applies the block to x [batch, sequence, width].
  [[nodiscard]] Tensor forward(const Tensor& x, nn::KvCache* cache = nullptr) const;

  nn::RMSNorm input_layernorm;           ///< Norm before attention.
  nn::Attention self_attn;               ///< Attention.
  nn::RMSNorm post_attention_layernorm;  ///< Norm before the feed-forward layer.
  nn::GatedMlp mlp;                      ///< Feed-forward layer.
  nn::Dropout attention_dropout;         ///< Dropout of the result of attention.
  nn::Dropout mlp_dropout;               ///< Dropout of the result of the feed-forward layer.
};

/// A Llama; see nn/language_model.h.
class TESSERA_API Llama : public nn::Layer<Llama> {
 public:
  /// Creates the model.
  explicit Llama(const LlamaConfig& config);
  /// Returns the scores [batch, sequence, vocabulary] of tokens [batch, sequence].
  [[nodiscard]] Tensor forward(const Tensor& tokens, nn::KvCache* cache = nullptr) const;
  /// Returns the rows before the output head.
  [[nodiscard]] Tensor hidden(const Tensor& tokens, nn::KvCache* cache = nullptr) const;
  /// Returns the scores of rows.
  [[nodiscard]] Tensor head(const Tensor& rows) const;
  /// Returns the mean loss over `count` targets; 0: those that are not ignored.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets, double count = 0) const;

  nn::Embedding embed_tokens;         ///< Token embedding.
  nn::ModuleList<LlamaBlock> layers;  ///< Blocks.
  nn::RMSNorm norm;                   ///< Last norm.
  nn::Linear lm_head;                 ///< Output head.
};

}  // namespace tessera::models
