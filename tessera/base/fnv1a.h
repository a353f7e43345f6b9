// FNV-1a hashes, which are specified, short and equal in all processes: for names and checks of small data. Internal to
// the library. They resist no attacker, and other hashes are faster for large data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::detail {

/// The 64-bit hash of no bytes.
inline constexpr std::uint64_t kFnv1aStart = 0xcbf29ce484222325;

/// Returns the 64-bit hash that follows `hash` after a byte. A wider value is one step too, which FNV-1a does not
/// specify.
constexpr std::uint64_t fnv1a_step(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * 0x100000001b3; }

/// Returns the 64-bit hash of `bytes`, continued from `hash`.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = kFnv1aStart) {
  for (const char c : bytes) hash = fnv1a_step(hash, static_cast<unsigned char>(c));
  return hash;
}

/// The 128-bit hash of bytes that are added in sequence, for names that must not collide.
class Fnv1a128 {
 public:
  /// Adds a byte.
  constexpr void add(unsigned char byte) { hash_ = (hash_ ^ byte) * ((Wide{1} << 88) + 0x13B); }
  /// Adds bytes.
  constexpr void add(std::string_view bytes) {
    for (const char c : bytes) add(static_cast<unsigned char>(c));
  }
  /// Returns the upper 64 bits.
  [[nodiscard]] constexpr std::uint64_t high() const { return static_cast<std::uint64_t>(hash_ >> 64); }
  /// Returns the lower 64 bits.
  [[nodiscard]] constexpr std::uint64_t low() const { return static_cast<std::uint64_t>(hash_); }
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
  Wide hash_ = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
};

}  // namespace tessera::detail
