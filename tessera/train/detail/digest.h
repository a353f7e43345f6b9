// 128-bit FNV-1a digests (base/fnv1a.h) of numbers and texts, for names that must not collide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/fnv1a.h"

namespace tessera::train::detail {

/// The digest of values that are added in sequence.
class Digest {
 public:
  /// Adds a number, little-endian.
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) hash_.add(static_cast<unsigned char>(number >> (8 * i)));
  }
  /// Adds a text with its length, so that "ab", "c" differs from "a", "bc".
  void add(std::string_view bytes) {
    add(std::uint64_t{bytes.size()});
    hash_.add(bytes);
  }
  /// Returns 32 hexadecimal digits.
  [[nodiscard]] std::string hex() const { return hash_.hex(); }

 private:
  tessera::detail::Fnv1a128 hash_;
};

}  // namespace tessera::train::detail
