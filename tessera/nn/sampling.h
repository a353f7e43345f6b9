// Draws the next token from the scores of a model.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/export.h"

namespace tessera::nn {

/// How the next token is drawn. The steps apply in this order: repetition penalty, temperature, top_k, top_p, min_p.
struct SamplingOptions {
  /// Scores of tokens that occur already are divided by this if positive, and multiplied otherwise. 1: no penalty.
  double repetition_penalty = 1;
  double temperature = 1;  ///< Probabilities are softmax(scores / temperature). 0: the token with the highest score.
  std::int64_t top_k = 0;  ///< Draws from this many tokens with the highest scores. 0: all.
  double top_p = 1;        ///< Draws from the fewest most likely tokens whose probabilities reach this sum. 1: all.
  double min_p = 0;        ///< Draws from tokens with at least this fraction of the highest probability.
  std::uint64_t seed = 1;  ///< Seed of the random numbers.
};

/// Throws InvalidArgument unless all options are in range.
TESSERA_API void check_sampling(const SamplingOptions& options);

/// Returns the token that a random number in [0, 1) selects. `previous`: tokens of the prompt and the text so far.
/// Tokens with equal scores are ordered by their numbers. Throws InvalidArgument if a score is NaN or all are
/// infinite.
TESSERA_API std::uint32_t draw_token(std::span<const float> scores, const SamplingOptions& options,
                                     std::span<const std::uint32_t> previous, double uniform);

}  // namespace tessera::nn
