// Checksums of checkpoints: XXH3 over 128 bits, as 32 hexadecimal digits in the order that xxhsum prints.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Digits of a checksum.
inline constexpr std::size_t kHashLetters = 32;

/// Hashes bytes that arrive in chunks.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  /// Adds bytes.
  void add(std::span<const std::byte> bytes);
  /// Returns the hash of all bytes so far.
  [[nodiscard]] std::string hex() const;
  /// Restarts the hash.
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the hash of these bytes.
std::string hash_of(std::string_view bytes);

}  // namespace tessera::train::detail
