// FNV-1a digests: 64 bits for the check of a header, 128 bits for names that must not collide. FNV-1a is specified and
// short, and the hashed data is small.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// FNV-1a over 64 bits.
constexpr std::uint64_t hash64(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// FNV-1a over 128 bits, of values that are added in sequence.
class Digest {
 public:
  /// Adds a number, little-endian.
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
  }
  /// Adds a text with its length, so that "ab", "c" differs from "a", "bc".
  void add(std::string_view bytes) {
    add(std::uint64_t{bytes.size()});
    for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
  }
  /// Returns 32 hexadecimal digits.
  [[nodiscard]] std::string hex() const {
    std::string text;
    for (int shift = 124; shift >= 0; shift -= 4) {
      text += "0123456789abcdef"[static_cast<unsigned>(hash_ >> shift) & 0xFU];
    }
    return text;
  }

 private:
  __extension__ using Wide = unsigned __int128;
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * ((Wide{1} << 88) + 0x13B); }
  Wide hash_ = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
};

}  // namespace tessera::train::detail
