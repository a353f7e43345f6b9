// Sizes of a decoder, as options of a run name them, and the presets of a family.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::nn {

/// Sizes of a decoder. A size of 0 is taken from the preset.
struct ModelConfig {
  std::string family = "llama";  ///< Name of a registered model family.
  std::string preset = "tiny";   ///< A preset of the family. Fields set explicitly take precedence.
  std::int64_t width = 0;        ///< Width of the residual stream.
  std::int64_t layers = 0;       ///< Number of blocks.
  std::int64_t heads = 0;        ///< Query heads.
  std::int64_t kv_heads = 0;     ///< Key and value heads, a divisor of `heads`.
  std::int64_t hidden = 0;       ///< Width of the feed-forward layer.
  std::int64_t vocabulary = 0;   ///< Number of distinct tokens.
  std::int64_t sequence = 0;     ///< Tokens per sample.
  bool tied = false;             ///< The output head shares the embedding.
  double dropout = 0;            ///< Dropout of the values that a block adds to the residual stream.
  double norm_eps = 1e-5;        ///< Epsilon of the norms.

  std::int64_t head_width = 0;      ///< Width of a head. 0: width / heads.
  bool qkv_bias = false;            ///< Biases of query, key and value.
  bool qk_norm = false;             ///< Norms of each query and key head.
  std::int64_t window = 0;          ///< Keys that a query attends to, its own included. 0: all before it.
  std::string activation = "auto";  ///< auto (that of the family), gelu, gelu_tanh, relu or silu.
  double rope_base = 10000;         ///< Base of the rotary position angles.
  double rope_factor = 1;           ///< Divisor of positions, for contexts longer than those of the training.
  std::int64_t rope_context = 0;    ///< Context of the training, for rope_factor by frequency. 0: all pairs equally.
  double rope_low_turns = 1;        ///< With rope_context: pairs with fewer turns in it are divided fully.
  double rope_high_turns = 4;       ///< With rope_context: pairs with more turns in it are not divided.
};

/// Sizes of a preset; see ModelConfig.
struct Preset {
  std::string_view name;    ///< "124m"
  std::int64_t width;       ///< Width of the residual stream.
  std::int64_t layers;      ///< Number of blocks.
  std::int64_t heads;       ///< Query heads.
  std::int64_t kv_heads;    ///< Key and value heads.
  std::int64_t hidden;      ///< Width of the feed-forward layer.
  std::int64_t vocabulary;  ///< Number of distinct tokens.
  std::int64_t sequence;    ///< Tokens per sample.
};

}  // namespace tessera::nn
