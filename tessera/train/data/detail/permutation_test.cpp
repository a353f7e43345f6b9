#include "tessera/train/data/detail/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera::train::detail {
namespace {

TEST(Permutation, ReachesEachNumberOnce) {
  for (std::uint64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    for (std::uint64_t key = 0; key < 5; ++key) {
      std::vector<bool> seen(n);
      const Permutation permutation(n, key);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t to = permutation(i);
        ASSERT_LT(to, n);
        ASSERT_FALSE(seen[to]) << n << " numbers, key " << key;
        seen[to] = true;
      }
    }
  }
}

// Over many keys, each number reaches every position about equally often: 4 standard deviations are the tolerance.
TEST(Permutation, DependsOnTheKey) {
  constexpr std::uint64_t kKeys = 20000;
  for (const std::uint64_t n : {3U, 5U, 10U}) {
    std::vector<std::vector<int>> counts(n, std::vector<int>(n));
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const Permutation permutation(n, key_of({key, n}));
      for (std::uint64_t i = 0; i < n; ++i) ++counts[i][permutation(i)];
    }
    const double mean = static_cast<double>(kKeys) / static_cast<double>(n);
    for (const auto& row : counts) {
      for (const int count : row) EXPECT_NEAR(count, mean, 5 * std::sqrt(mean)) << n;
    }
  }
}

// Runs can resume only as long as these values stay.
TEST(Permutation, StaysWhatItIs) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < 10; ++i) order.push_back(Permutation(10, 1)(i));
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 6, 7, 3, 4, 9, 0, 8, 5}));
  EXPECT_EQ(Permutation(std::uint64_t{1} << 40, 7)(12345), 973657016354U);
  EXPECT_NE(key_of({1, 2}), key_of({2, 1}));
}

}  // namespace
}  // namespace tessera::train::detail
