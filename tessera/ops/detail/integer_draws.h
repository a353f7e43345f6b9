// Random integers and permutations from the words of philox.h, for the host and CUDA kernels.
#pragma once

#include "tessera/ops/detail/philox.h"

namespace tessera::ops::detail {

/// Maps random words to [low, low + range): the upper half of the product of word and range, with 32 bits, or with 64
/// for long ranges. A range of 0 is 2^64.
struct IntegerRange {
  std::int64_t low = 0;
  std::uint64_t range = 1;

  /// Returns true if 32 random bits suffice. Element i then uses word i % 4 of block i / 4, otherwise two words of
  /// block i / 2.
  [[nodiscard]] TESSERA_HOST_DEVICE bool is_short() const { return range != 0 && range <= (std::uint64_t{1} << 32); }
  [[nodiscard]] TESSERA_HOST_DEVICE std::int64_t of_word(std::uint32_t word) const { return at(word * range >> 32); }
  /// Returns the integer of an element from the words of block element / 2.
  [[nodiscard]] TESSERA_HOST_DEVICE std::int64_t of_words(const std::uint32_t (&words)[4],
                                                          std::uint64_t element) const {
    const std::uint32_t low_word = element % 2 == 0 ? words[0] : words[2];
    const std::uint32_t high_word = element % 2 == 0 ? words[1] : words[3];
    const std::uint64_t word = low_word | std::uint64_t{high_word} << 32;
    return at(range == 0 ? word : high_product(word, range));
  }

 private:
  [[nodiscard]] TESSERA_HOST_DEVICE static std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{a} * b >> 64);
#endif
  }
  [[nodiscard]] TESSERA_HOST_DEVICE std::int64_t at(std::uint64_t offset) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
  }
};

/// A permutation of the integers below a power of two: a Feistel network with random keys. Values past the end go
/// through it again. Each element is computed independently, so that shards agree.
struct Permutation {
  static constexpr int kRounds = 12;

  std::uint64_t n = 1;
  int half = 4;  // bits of each half
  std::uint32_t keys[kRounds] = {};

  /// Returns the permuted value of an index below n.
  [[nodiscard]] TESSERA_HOST_DEVICE std::int64_t of(std::uint64_t at) const {
    do {
      at = mixed(at);
    } while (at >= n);
    return static_cast<std::int64_t>(at);
  }

 private:
  [[nodiscard]] TESSERA_HOST_DEVICE std::uint64_t mixed(std::uint64_t at) const {
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << half) - 1);
    auto left = static_cast<std::uint32_t>(at >> half);
    auto right = static_cast<std::uint32_t>(at) & mask;
    for (const std::uint32_t round_key : keys) {
      std::uint64_t word = (right ^ round_key) * std::uint64_t{0x9E3779B97F4A7C15U};
      word ^= word >> 29;
      word *= 0xBF58476D1CE4E5B9U;
      const std::uint32_t next = (left ^ static_cast<std::uint32_t>(word >> 32)) & mask;
      left = right;
      right = next;
    }
    return std::uint64_t{left} << half | right;
  }
};

/// Returns the bits of each half for n values. Networks below 8 bits have too few permutations.
constexpr int permutation_half(std::uint64_t n) {
  const int bits = static_cast<int>(std::bit_width(n));
  return ((bits < 8 ? 8 : bits) + 1) / 2;
}

}  // namespace tessera::ops::detail
