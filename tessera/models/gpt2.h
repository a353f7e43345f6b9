// GPT-2: a decoder with layer norms, learned positions, biases and a head tied to the embedding. Module paths are those
// of published checkpoints, except that query, key and value are separate.
//
//   x = wte[tokens] + wpe[positions]
//   x = x + attn(ln_1(x))           per layer
//   x = x + mlp(ln_2(x))
//   scores = ln_f(x) wte^T
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/nn/language_model.h"
#include "tessera/nn/layers/attention.h"
#include "tessera/nn/layers/dropout.h"
#include "tessera/nn/layers/embedding.h"
#include "tessera/nn/layers/mlp.h"
#include "tessera/nn/layers/norm.h"
#include "tessera/nn/module_list.h"

namespace tessera::models {

/// Sizes of a GPT-2.
struct Gpt2Config {
  std::int64_t width = 0;                ///< Width of the residual stream.
  std::int64_t layers = 0;               ///< Number of blocks.
  std::int64_t heads = 0;                ///< Heads.
  std::int64_t hidden = 0;               ///< Width of the feed-forward layer.
  std::int64_t vocabulary = 0;           ///< Number of distinct tokens.
  std::int64_t sequence = 0;             ///< Number of positions.
  std::string activation = "gelu_tanh";  ///< gelu, gelu_tanh, relu or silu.
  double dropout = 0;                    ///< Dropout of the embedding, and of the values that a block adds.
  double norm_eps = 1e-5;                ///< Epsilon of the norms.
};

/// A block of GPT-2.
class TESSERA_API Gpt2Block : public nn::Layer<Gpt2Block> {
 public:
  /// Creates the block.
  explicit Gpt2Block(const Gpt2Config& config);
  /// Applies the block to x [batch, sequence, width].
  [[nodiscard]] Tensor forward(const Tensor& x, nn::KvCache* cache = nullptr) const;

  nn::LayerNorm ln_1;             ///< Norm before attention.
  nn::Attention attn;             ///< Attention.
  nn::LayerNorm ln_2;             ///< Norm before the feed-forward layer.
  nn::Mlp mlp;                    ///< Feed-forward layer.
  nn::Dropout attention_dropout;  ///< Dropout of the result of attention.
  nn::Dropout mlp_dropout;        ///< Dropout of the result of the feed-forward layer.
};

/// A GPT-2; see nn/language_model.h.
class TESSERA_API Gpt2 : public nn::Layer<Gpt2> {
 public:
  /// Creates the model.
  explicit Gpt2(const Gpt2Config& config);
  /// Returns the scores [batch, sequence, vocabulary] of tokens [batch, sequence].
  [[nodiscard]] Tensor forward(const Tensor& tokens, nn::KvCache* cache = nullptr) const;
  /// Returns the rows before the output head.
  [[nodiscard]] Tensor hidden(const Tensor& tokens, nn::KvCache* cache = nullptr) const;
  /// Returns the scores of rows.
  [[nodiscard]] Tensor head(const Tensor& rows) const;
  /// Returns the mean loss over `count` targets; 0: those that are not ignored.
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& targets, double count = 0) const;

  nn::Embedding wte;            ///< Token embedding and output head.
  nn::Embedding wpe;            ///< Position embedding.
  nn::Dropout dropout;          ///< Dropout of the embedding.
  nn::ModuleList<Gpt2Block> h;  ///< Blocks.
  nn::LayerNorm ln_f;           ///< Last norm.

 private:
  [[nodiscard]] Tensor positions(const Tensor& tokens, nn::KvCache* cache) const;
};

}  // namespace tessera::models
