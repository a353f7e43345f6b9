// A shuffle of 0 to n - 1 that is computed, not stored: a Feistel network over the next power of four, iterated until
// the result is in range. Its results must never change, because the sample order of runs depends on them.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace tessera::train::detail {

/// Mixes all bits of `x` (the finalizer of splitmix64).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// Returns a key of numbers, which depends on their order.
constexpr std::uint64_t key_of(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t key = 0;
  for (const std::uint64_t part : parts) key = mixed((key ^ part) + 0x9e3779b97f4a7c15);
  return key;
}

/// One shuffle of n numbers.
class Permutation {
 public:
  /// Requires n >= 1.
  constexpr Permutation(std::uint64_t n, std::uint64_t key)
      : n_(n), key_(key), half_bits_(n <= 1 ? 1 : (std::bit_width(n - 1) + 1) / 2) {}
  /// Returns the new position of `i` < n.
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t i) const {
    if (n_ <= 1) return 0;
    do i = round_trip(i);
    while (i >= n_);
    return i;
  }

 private:
  [[nodiscard]] constexpr std::uint64_t round_trip(std::uint64_t i) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = i >> half_bits_;
    std::uint64_t right = i & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mixed(right ^ mixed(key_ + round * 0x9e3779b97f4a7c15)) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  static constexpr std::uint64_t kRounds = 6;
  std::uint64_t n_;
  std::uint64_t key_;
  int half_bits_;
};

}  // namespace tessera::train::detail
