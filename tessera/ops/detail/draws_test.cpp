// Tests random numbers: the published test vectors, equal bits from all implementations, and the distributions.
#include "tessera/ops/detail/draws.h"

#include <Random123/philox.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tessera/ops/detail/philox.h"
#include "tessera/ops/testing/each_target.h"

namespace tessera::ops::detail {
namespace {

// Draws one element by the definition.
float uniform_at(DrawKey key, std::uint64_t element) {
  std::uint32_t words[4];
  words_of_block(key.seed, key.call, element / 4, words);
  return uniform_of<OneByOne>(words[element % 4]);
}
float normal_at(DrawKey key, std::uint64_t element) {
  std::uint32_t words[4];
  words_of_block(key.seed, key.call, element / 4, words);
  const std::size_t pair = element % 4 / 2 * 2;
  float both[2];
  normals_of<OneByOne>(words[pair], words[pair + 1], both[0], both[1]);
  return both[element % 2];
}

TEST(Philox, GivesWhatRandom123Gives) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t seed = random();
    const std::uint64_t call = random();
    const std::uint64_t block = random();
    std::uint32_t words[4];
    words_of_block(seed, call, block, words);
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const r123::Philox4x32::ctr_type counter = {{low(block), high(block), low(call), high(call)}};
    const r123::Philox4x32::key_type key = {{low(seed), high(seed)}};
    const auto want = r123::Philox4x32()(counter, key);
    for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(words[w], want[w]);
  }
}

class DrawsOnEachTarget : public testing::OnEachTarget {};

TEST_P(DrawsOnEachTarget, AnElementIsTheSameWhereverADrawBeginsAndEnds) {
  const DrawKey key{0x1234567890abcdef, 42};
  for (const std::uint64_t base : {std::uint64_t{0}, (std::uint64_t{1} << 34) - 50}) {
    for (std::uint64_t first = 0; first < 40; ++first) {
      for (std::int64_t n = 0; n < 70; n += n < 10 ? 1 : 7) {
        std::vector<float> uniform(static_cast<std::size_t>(n));
        std::vector<float> normal(static_cast<std::size_t>(n));
        std::vector<std::uint32_t> words(static_cast<std::size_t>(n));
        draw_uniform(uniform.data(), key, base + first, n);
        draw_normal(normal.data(), key, base + first, n);
        draw_words(words.data(), key, base + first, n);
        for (std::size_t i = 0; i < uniform.size(); ++i) {
          ASSERT_EQ(uniform[i], uniform_at(key, base + first + i));
          ASSERT_EQ(normal[i], normal_at(key, base + first + i)) << first << " " << i;
          ASSERT_EQ(uniform_of<OneByOne>(words[i]), uniform[i]);
        }
      }
    }
  }
}

TEST_P(DrawsOnEachTarget, ManyNormalsHaveTheBitsOfOnesAlone) {
  const DrawKey key{7, 3};
  std::vector<float> normal(100000);
  draw_normal(normal.data(), key, 0, 100000);
  for (std::size_t i = 0; i < normal.size(); ++i) ASSERT_EQ(normal[i], normal_at(key, i)) << i;
}

INSTANTIATE_TEST_SUITE_P(Targets, DrawsOnEachTarget, testing::kEachTarget);

TEST(Draws, LogarithmAndCircleAreAccurate) {
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i) {
    // Includes both ends of the range.
    const std::uint32_t word = i < 1000   ? 256U * static_cast<std::uint32_t>(i)
                               : i < 2000 ? 0xFFFFFFFFU - 256U * static_cast<std::uint32_t>(i - 1000)
                                          : static_cast<std::uint32_t>(random());
    const double x = (static_cast<double>(word >> 8) + 1) / 16777216.0;
    const double want = std::log(x);
    ASSERT_NEAR(log_of_word<OneByOne>(word), want, 2e-7 * std::abs(want) + 1e-30) << x;
    float c = 0;
    float s = 0;
    circle_of_word<OneByOne>(word, c, s);
    const double angle = 2 * M_PI * static_cast<double>(word >> 8) / 16777216.0;
    ASSERT_NEAR(c, std::cos(angle), 2e-7);
    ASSERT_NEAR(s, std::sin(angle), 2e-7);
  }
}

TEST(Draws, MomentsAreThoseOfTheDistributions) {
  constexpr std::int64_t kCount = 1 << 20;
  std::vector<float> values(kCount);
  const auto moment = [&](int power, double about) {
    double sum = 0;
    for (const float value : values) sum += std::pow(value - about, power);
    return sum / kCount;
  };
  draw_uniform(values.data(), {1, 1}, 0, kCount);
  EXPECT_NEAR(moment(1, 0), 0.5, 2e-3);
  EXPECT_NEAR(moment(2, 0.5), 1.0 / 12, 1e-3);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
  draw_normal(values.data(), {1, 2}, 0, kCount);
  EXPECT_NEAR(moment(1, 0), 0, 5e-3);
  EXPECT_NEAR(moment(2, 0), 1, 1e-2);
  EXPECT_NEAR(moment(3, 0), 0, 2e-2);
  EXPECT_NEAR(moment(4, 0), 3, 5e-2);
}

TEST(Draws, ValuesStayWhatTheyWere) {
  float normal[4];
  draw_normal(normal, {0, 0}, 0, 4);
  float uniform[4];
  draw_uniform(uniform, {0, 0}, 0, 4);
  // Philox4x32-10 of all zeros begins 6627e8d5 e169c58d bc57ac4c 9b00dbd8, as published.
  EXPECT_EQ(uniform[0], static_cast<float>(0x6627e8) / 16777216.0F);
  EXPECT_EQ(uniform[1], static_cast<float>(0xe169c5) / 16777216.0F);
  EXPECT_EQ(uniform[2], static_cast<float>(0xbc57ac) / 16777216.0F);
  EXPECT_EQ(uniform[3], static_cast<float>(0x9b00db) / 16777216.0F);
  const double radius = std::sqrt(-2 * std::log((0x6627e8 + 1) / 16777216.0));
  EXPECT_NEAR(normal[0], radius * std::cos(2 * M_PI * 0xe169c5 / 16777216.0), 1e-6);
  EXPECT_NEAR(normal[1], radius * std::sin(2 * M_PI * 0xe169c5 / 16777216.0), 1e-6);
}

}  // namespace
}  // namespace tessera::ops::detail
