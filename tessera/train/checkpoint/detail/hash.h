// Checksums of checkpoints: XXH3 over 128 bits, as 32 hexadecimal digits in the order that xxhsum prints.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Letters of a checksum.
inline constexpr std::size_t kHashLetters = 32;

/// Hashes bytes that come in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  /// Adds bytes.
  void add(std::span<const std::byte> bytes);
  /// Of all bytes so far.
  [[nodiscard]] std::string hex() const;
  /// As new.
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of these bytes.
std::string hash_of(std::string_view bytes);

}  // namespace tessera::train::detail
