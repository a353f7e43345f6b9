// Random numbers that are the same on every machine, for generated programs.
#pragma once

#include <cstdint>

namespace tessera::memory::testing {

/// A short generator (splitmix64): consecutive seeds yield unrelated sequences.
class RandomNumbers {
 public:
  /// Starts the sequence of a seed.
  explicit RandomNumbers(std::uint64_t seed) : state_(seed * 0xD1342543DE82EF95ull) {}
  /// Returns 64 random bits.
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// Returns a number in [0, bound).
  int below(int bound) { return static_cast<int>(((bits() >> 32) * static_cast<std::uint64_t>(bound)) >> 32); }
  /// Returns true with a probability of 1/n.
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace tessera::memory::testing
