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
  double rope_base = 10000;      ///< Base of the rotary position angles.
  double norm_eps = 1e-5;        ///< Epsilon of the norms.
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
