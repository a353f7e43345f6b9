// Drawing tokens, batches of sequences and the pages of the cache, with models whose answers are known.
#include "tessera/nn/generation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/device/device.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/layers/attention.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kVocabulary = 10;

// Token t is followed by t + 1. Records the shape of each pass.
struct Counting : Layer<Counting> {
  explicit Counting(std::shared_ptr<std::vector<Shape>> seen) : passes(std::move(seen)) {}
  [[nodiscard]] Tensor hidden(const Tensor& tokens, KvCache* cache) const {
    passes->push_back(tokens.shape());
    if (cache != nullptr) last_cache = cache;
    return ops::cast(ops::one_hot(tokens, kVocabulary), DType::kF32);
  }
  [[nodiscard]] Tensor head(const Tensor& rows) const {
    return ops::cat(std::array{ops::narrow(rows, -1, kVocabulary - 1, 1), ops::narrow(rows, -1, 0, kVocabulary - 1)},
                    -1);
  }
  [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& /*targets*/, double /*count*/) const { return tokens; }
  std::shared_ptr<std::vector<Shape>> passes;
  mutable KvCache* last_cache = nullptr;
};

GenerationOptions greedy(std::int64_t max_tokens, std::int64_t context = 100) {
  return {.max_tokens = max_tokens, .context = context, .sampling = {.temperature = 0}};
}

using Tokens = std::vector<std::uint32_t>;

TEST(Generation, EndsEachSequenceForItsReasonAndLeavesTheBatch) {
  const auto passes = std::make_shared<std::vector<Shape>>();
  const auto model = language_model(Counting(passes));
  GenerationOptions options = greedy(5);
  options.end_tokens = {7};
  options.batch = 2;
  std::vector<std::pair<std::int64_t, std::uint32_t>> told;
  const std::vector<Tokens> prompts = {{4, 5}, {1, 2}, {8}};
  const auto results = generate(*model, prompts, options, [&](std::int64_t prompt, std::uint32_t token) {
    told.emplace_back(prompt, token);
    return token != 0;
  });
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].tokens, (Tokens{6}));
  EXPECT_EQ(results[0].end, GenerationEnd::kEndToken);
  EXPECT_EQ(results[1].tokens, (Tokens{3, 4, 5, 6}));
  EXPECT_EQ(results[2].tokens, (Tokens{9, 0}));
  EXPECT_EQ(results[2].end, GenerationEnd::kStopped);
  EXPECT_EQ(told.size(), 7U);
  // Prompts of one length together; when the first ends, the third takes its place.
  EXPECT_EQ(*passes, (std::vector<Shape>{{2, 2}, {2, 1}, {1, 1}, {1, 1}, {2, 1}, {1, 1}}));
}

TEST(Generation, StopsAtTheContextOrForgetsItsOlderHalf) {
  const auto passes = std::make_shared<std::vector<Shape>>();
  const auto model = language_model(Counting(passes));
  const std::vector<Tokens> prompts = {{1, 2}};
  GenerationOptions options = greedy(9, 4);
  auto results = generate(*model, prompts, options);
  EXPECT_EQ(results[0].end, GenerationEnd::kContext);
  EXPECT_EQ(results[0].tokens, (Tokens{3, 4, 5})) << "a token after the last that the model can see";
  passes->clear();
  options.slides = true;
  results = generate(*model, prompts, options);
  EXPECT_EQ(results[0].end, GenerationEnd::kMaxTokens);
  EXPECT_EQ(results[0].tokens, (Tokens{3, 4, 5, 6, 7, 8, 9, 0, 1}));
  EXPECT_EQ(*passes, (std::vector<Shape>{{1, 2}, {1, 1}, {1, 1}, {1, 2}, {1, 1}, {1, 1}, {1, 2}, {1, 1}, {1, 1}}));
}

TEST(Conversation, ComputesOnlyTheTokensAfterThoseOfTheLastTurn) {
  const auto passes = std::make_shared<std::vector<Shape>>();
  const auto model = language_model(Counting(passes));
  Conversation conversation(*model);
  GenerationOptions options = greedy(2);
  EXPECT_EQ(conversation.generate({1, 2, 3}, options).tokens, (Tokens{4, 5}));
  EXPECT_EQ(conversation.computed_tokens(), 3);
  // {1, 2, 3, 4} are computed; 5 was drawn and not computed.
  EXPECT_EQ(conversation.generate({1, 2, 3, 4, 5, 7}, options).tokens, (Tokens{8, 9}));
  EXPECT_EQ(conversation.computed_tokens(), 2);
  options.end_tokens = {2};
  EXPECT_EQ(conversation.generate({1, 2, 3, 4, 5, 7, 8, 0}, options).tokens, (Tokens{1}));
  EXPECT_EQ(conversation.computed_tokens(), 1);
  EXPECT_EQ(*passes, (std::vector<Shape>{{1, 3}, {1, 1}, {1, 2}, {1, 1}, {1, 1}, {1, 1}}));
  // Another history, and one of the kept tokens alone.
  EXPECT_EQ(conversation.generate({1, 2, 4}, options).tokens, (Tokens{5, 6}));
  EXPECT_EQ(conversation.computed_tokens(), 3);
  EXPECT_EQ(conversation.generate({1, 2}, options).tokens, (Tokens{3, 4}));
  EXPECT_EQ(conversation.computed_tokens(), 2);
  options.has_cache = false;
  EXPECT_EQ(conversation.generate({1, 2, 3, 5}, options).tokens, (Tokens{6, 7}));
  EXPECT_EQ(conversation.computed_tokens(), 4);
}

TEST(Conversation, StartsAgainAfterAnError) {
  const auto model = language_model(Counting(std::make_shared<std::vector<Shape>>()));
  Conversation conversation(*model);
  const GenerationOptions options = greedy(2);
  (void)conversation.generate({1, 2, 3}, options);
  const auto fail = [](std::int64_t /*prompt*/, std::uint32_t /*token*/) -> bool {
    TESSERA_THROW(InvalidArgument, "no");
  };
  EXPECT_THROW((void)conversation.generate({1, 2, 3, 4, 5}, options, fail), InvalidArgument);
  EXPECT_EQ(conversation.generate({1, 2, 3, 4, 5}, options).tokens, (Tokens{6, 7}));
  EXPECT_EQ(conversation.computed_tokens(), 5);
}

TEST(Generation, RejectsPromptsThatDoNotFit) {
  const auto model = language_model(Counting(std::make_shared<std::vector<Shape>>()));
  const auto message = [&](const Tokens& prompt, const GenerationOptions& options) -> std::string {
    try {
      (void)generate(*model, std::vector<Tokens>{prompt}, options);
    } catch (const InvalidArgument& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message({}, greedy(1)).find("prompt must not be empty"), std::string::npos);
  EXPECT_NE(
      message({1, 2, 3, 4, 5}, greedy(1, 4)).find("prompt must have at most 4 tokens, the context of the model, got 5"),
      std::string::npos);
  GenerationOptions bad = greedy(1);
  bad.sampling.top_p = 0;
  EXPECT_NE(message({1}, bad).find("top_p must be above 0"), std::string::npos);
}

// Counts the tokens of many draws.
std::map<std::uint32_t, int> draws(const std::vector<float>& scores, const SamplingOptions& options,
                                   const Tokens& previous = {}) {
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < 1000; ++i) ++counts[draw_token(scores, options, previous, (i + 0.5) / 1000)];
  return counts;
}

TEST(Sampling, FollowsTheProbabilities) {
  const std::vector<float> scores = {std::log(0.5F), std::log(0.1F), std::log(0.3F), std::log(0.1F)};
  using Counts = std::map<std::uint32_t, int>;
  const auto near = [](const Counts& got, const Counts& want) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [token, count] : want) EXPECT_NEAR(got.at(token), count, 2) << token;
  };
  near(draws(scores, {}), {{0, 500}, {1, 100}, {2, 300}, {3, 100}});
  near(draws(scores, {.temperature = 0}), {{0, 1000}});
  near(draws(scores, {.temperature = 0.5}), {{0, 694}, {1, 28}, {2, 250}, {3, 28}});
  near(draws(scores, {.top_k = 2}), {{0, 625}, {2, 375}});
  near(draws(scores, {.top_k = 3}), {{0, 556}, {1, 111}, {2, 333}});
  near(draws(scores, {.top_p = 0.4}), {{0, 1000}});
  near(draws(scores, {.top_p = 0.6}), {{0, 625}, {2, 375}});
  near(draws(scores, {.min_p = 0.5}), {{0, 625}, {2, 375}});
  near(draws(scores, {.min_p = 1}), {{0, 1000}});
  // log 0.5 / 0.5 is log 0.25.
  near(draws({1.0F, 1.0F}, {.repetition_penalty = 2}, {1, 1}), {{0, 622}, {1, 378}});
  near(draws({-1.0F, -1.0F}, {.repetition_penalty = 2}, {1}), {{0, 731}, {1, 269}});
  EXPECT_EQ(draw_token(std::vector<float>{2, 5, 5}, {.temperature = 0}, {}, 0.9), 1U);
  EXPECT_EQ(draw_token(std::vector<float>{2, 5, 5}, {}, {}, 1 - 1e-16), 2U);
}

TEST(Sampling, RejectsScoresThatAreNotNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THROW((void)draw_token(std::vector<float>{1, nan}, {}, {}, 0.5), InvalidArgument);
  EXPECT_THROW((void)draw_token(std::vector<float>{-infinity, -infinity}, {}, {}, 0.5), InvalidArgument);
  EXPECT_EQ(draw_token(std::vector<float>{-infinity, 1}, {}, {}, 0.0), 1U);
  EXPECT_THROW((void)draw_token(std::vector<float>{1}, {.temperature = -1}, {}, 0.5), InvalidArgument);
}

TEST(Generation, DrawsByTheSeedAndThePromptAlone) {
  struct Flat : Layer<Flat> {
    [[nodiscard]] Tensor hidden(const Tensor& tokens, KvCache* /*cache*/) const {
      return ops::zeros({tokens.size(0), tokens.size(1), 64});
    }
    [[nodiscard]] Tensor head(const Tensor& rows) const { return rows; }
    [[nodiscard]] Tensor loss(const Tensor& tokens, const Tensor& /*targets*/, double /*count*/) const {
      return tokens;
    }
  };
  const auto model = language_model(Flat());
  const auto run = [&](const std::vector<Tokens>& prompts, std::uint64_t seed, std::int64_t batch) {
    std::vector<Tokens> all;
    for (const Generated& each :
         generate(*model, prompts, {.max_tokens = 12, .context = 100, .batch = batch, .sampling = {.seed = seed}}))
      all.push_back(each.tokens);
    return all;
  };
  const auto all = run({{1}, {1}, {1, 2}}, 5, 8);
  EXPECT_NE(all[0], all[1]);
  EXPECT_EQ(run({{1}, {1}, {1, 2}}, 5, 1), all);
  EXPECT_EQ(run({{1}}, 5, 1)[0], all[0]);
  EXPECT_NE(run({{1}}, 6, 1)[0], all[0]);
  GenerationOptions few{.max_tokens = 50, .context = 100, .vocabulary = 3};
  const auto drawn = generate(*model, std::vector<Tokens>{{1}}, few);
  for (const std::uint32_t token : drawn[0].tokens) EXPECT_LT(token, 3U);
}

std::vector<float> values_of(const Tensor& x) {
  const Tensor plain = ops::contiguous(ops::cast(x, DType::kF32));
  device::Device::get("host").synchronize();
  return {plain.data_as<float>(), plain.data_as<float>() + plain.numel()};
}

// Sequences that grow, end and begin, in any order and in passes of any length, against attention without a cache.
TEST(KvCache, GivesEachSequenceItsOwnTokens) {
  ops::manual_seed(4);
  for (const std::int64_t window : {0, 5}) {
    const Attention attention(
        {.width = 24, .heads = 4, .kv_heads = 2, .window = window, .rope = ops::RopeAttributes{}});
    const autograd::NoGrad no_grad;
    KvCache cache;
    std::map<std::int64_t, Tensor> inputs;  // all rows of each sequence
    std::mt19937 random(2);
    std::int64_t most_pages = 0;
    for (int step = 0; step < 60; ++step) {
      if (inputs.size() < 3 || random() % 5 == 0) inputs[cache.add_sequence()] = ops::zeros({1, 0, 24});
      std::vector<std::int64_t> rows;
      for (const auto& [sequence, x] : inputs) {
        if (random() % 2 == 0) rows.push_back(sequence);
      }
      std::shuffle(rows.begin(), rows.end(), random);
      if (rows.empty()) continue;
      const std::int64_t count = random() % 3 == 0 ? 1 + static_cast<std::int64_t>(random() % 20) : 1;
      const Tensor x = ops::randn({std::ssize(rows), count, 24});
      cache.select(rows);
      const Tensor got = attention(x, &cache);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        Tensor& all = inputs[rows[i]];
        const Tensor own = ops::narrow(x, 0, static_cast<std::int64_t>(i), 1);
        all = ops::cat(std::array{all, own}, 1);
        EXPECT_EQ(cache.tokens(rows[i]), all.size(1));
        const Tensor want = ops::narrow(attention(all), 1, all.size(1) - count, count);
        const std::vector<float> a = values_of(ops::narrow(got, 0, static_cast<std::int64_t>(i), 1));
        const std::vector<float> b = values_of(want);
        for (std::size_t c = 0; c < a.size(); ++c) ASSERT_NEAR(a[c], b[c], 1e-5) << "step " << step << ", row " << i;
      }
      std::int64_t pages = 0;
      for (const auto& [sequence, x_of] : inputs) pages += (x_of.size(1) + 15) / 16;
      EXPECT_EQ(cache.pages_in_use(), pages);
      most_pages = std::max(most_pages, pages);
      if (inputs.size() > 4) {
        cache.select({});
        cache.remove_sequence(inputs.begin()->first);
        inputs.erase(inputs.begin());
      }
    }
    EXPECT_GT(most_pages, 4);
  }
}

TEST(KvCache, RejectsWrongSequences) {
  KvCache cache;
  const std::int64_t first = cache.add_sequence();
  const std::int64_t second = cache.add_sequence();
  cache.select(std::array{first, second});
  EXPECT_THROW(cache.remove_sequence(first), InvalidArgument);
  EXPECT_THROW(cache.select(std::array{first, first}), InvalidArgument);
  EXPECT_THROW(cache.select(std::array{std::int64_t{9}}), InvalidArgument);
  EXPECT_THROW((void)cache.starts(3), InvalidArgument);
  EXPECT_EQ(cache.starts(2), (std::vector<std::int64_t>{0, 0}));
  const Attention both({.width = 8, .heads = 2, .is_causal = false});
  EXPECT_THROW((void)both(ops::zeros({2, 1, 8}), &cache), InvalidArgument);
}

}  // namespace
}  // namespace tessera::nn
