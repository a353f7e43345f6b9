#include "tessera/nn/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::nn {
namespace {

void penalize(std::span<float> scores, std::span<const std::uint32_t> previous, double penalty) {
  std::vector<std::uint32_t> once(previous.begin(), previous.end());
  std::ranges::sort(once);
  once.erase(std::ranges::unique(once).begin(), once.end());
  for (const std::uint32_t token : once) {
    if (token >= scores.size()) continue;
    float& score = scores[token];
    score = static_cast<float>(score > 0 ? score / penalty : score * penalty);
  }
}

// Candidates with their weights exp((score - best) / temperature).
struct Candidates {
  std::vector<std::uint32_t> tokens;
  std::vector<double> weights;  // by token

  void order_by_weight(std::size_t first) {
    const auto is_before = [&](std::uint32_t a, std::uint32_t b) {
      return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
    };
    std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end(), is_before);
  }
  [[nodiscard]] double sum() const {
    return std::accumulate(tokens.begin(), tokens.end(), 0.0,
                           [&](double sum, std::uint32_t token) { return sum + weights[token]; });
  }
};

void keep_top_k(Candidates& of, std::int64_t k) {
  if (k == 0 || static_cast<std::size_t>(k) >= of.tokens.size()) return;
  of.order_by_weight(static_cast<std::size_t>(k));
  of.tokens.resize(static_cast<std::size_t>(k));
}

void keep_top_p(Candidates& of, double p) {
  if (p >= 1) return;
  of.order_by_weight(of.tokens.size());
  const double enough = p * of.sum();
  double sum = 0;
  std::size_t count = 0;
  while (count < of.tokens.size() && (count == 0 || sum < enough)) sum += of.weights[of.tokens[count++]];
  of.tokens.resize(count);
}

void keep_min_p(Candidates& of, double p) {
  std::erase_if(of.tokens, [&](std::uint32_t token) { return of.weights[token] < p; });
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  TESSERA_CHECK(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
                "generate: repetition_penalty must be above 0, got ", options.repetition_penalty);
  TESSERA_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
                "generate: temperature must be at least 0, got ", options.temperature);
  TESSERA_CHECK(options.top_k >= 0, "generate: top_k must be at least 0, got ", options.top_k);
  TESSERA_CHECK(options.top_p > 0 && options.top_p <= 1, "generate: top_p must be above 0 and at most 1, got ",
                options.top_p);
  TESSERA_CHECK(options.min_p >= 0 && options.min_p <= 1, "generate: min_p must be in [0, 1], got ", options.min_p);
}

std::uint32_t draw_token(std::span<const float> scores, const SamplingOptions& options,
                         std::span<const std::uint32_t> previous, double uniform) {
  check_sampling(options);
  TESSERA_CHECK(!scores.empty(), "generate: scores must not be empty");
  TESSERA_CHECK(std::ranges::none_of(scores, [](float score) { return std::isnan(score); }),
                "generate: scores must be numbers, got nan; check the weights of the model");
  std::vector<float> penalized;
  if (options.repetition_penalty != 1) {
    penalized.assign(scores.begin(), scores.end());
    penalize(penalized, previous, options.repetition_penalty);
    scores = penalized;
  }
  const auto best = std::ranges::max_element(scores);
  TESSERA_CHECK(std::isfinite(*best), "generate: the highest score must be finite, got ", *best,
                "; check the weights of the model");
  if (options.temperature == 0) return static_cast<std::uint32_t>(best - scores.begin());
  Candidates of;
  of.tokens.resize(scores.size());
  std::iota(of.tokens.begin(), of.tokens.end(), 0U);
  of.weights.reserve(scores.size());
  for (const float score : scores) of.weights.push_back(std::exp((score - *best) / options.temperature));
  keep_top_k(of, options.top_k);
  keep_top_p(of, options.top_p);
  keep_min_p(of, options.min_p);
  std::ranges::sort(of.tokens);
  std::vector<double> cumulated;
  cumulated.reserve(of.tokens.size());
  double sum = 0;
  for (const std::uint32_t token : of.tokens) cumulated.push_back(sum += of.weights[token]);
  const auto found = std::ranges::upper_bound(cumulated, uniform * sum);
  return of
      .tokens[static_cast<std::size_t>(std::min<std::ptrdiff_t>(found - cumulated.begin(), std::ssize(of.tokens) - 1))];
}

}  // namespace tessera::nn
