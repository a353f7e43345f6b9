// A store holds small values under names that all ranks share. Ranks meet through it before they can communicate.
// Stores are in memory (ranks that are threads), in a directory (processes that share a file system), or behind a
// socket (tessera run hosts it), each optionally under a prefix. Values are bytes; keys are text without line ends, at
// most kMaxKeyBytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::comm {

/// A store. Thread-safe; a waiting call does not block other calls on the same object.
class TESSERA_API Store {
 public:
  /// Maximum length of a key.
  static constexpr std::size_t kMaxKeyBytes = 1024;
  /// Maximum length of a value.
  static constexpr std::size_t kMaxValueBytes = std::size_t{4} << 20;

  virtual ~Store() = default;
  /// Sets a value and overwrites an existing one.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Returns the current value, or nullopt if the key has none.
  virtual std::optional<std::string> find(std::string_view key) = 0;
  /// Adds to a value that is a decimal number (0 if the key has no value) and returns the sum. Throws if the value is
  /// not a number.
  virtual std::int64_t add(std::string_view key, std::int64_t by) = 0;
  /// Atomically sets `desired` if the value is `expected` (nullopt: if the key has no value). Returns the value after
  /// that: `desired`, the different existing value, or nullopt if the key has none.
  virtual std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                                 std::string_view desired) = 0;
  /// Waits until all keys have values. Throws TimeoutError, which names the missing keys.
  virtual void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) = 0;
  /// Removes a value. Returns true if the key had one.
  virtual bool remove(std::string_view key) = 0;
  /// Returns the keys that begin with `prefix`, sorted.
  virtual std::vector<std::string> keys(std::string_view prefix) = 0;
  /// Describes the store for errors: "tcp store at 127.0.0.1:29500".
  [[nodiscard]] virtual std::string text() const = 0;

  /// Waits for the key and returns its value.
  std::string get(std::string_view key, std::chrono::nanoseconds timeout);
};

/// Throws InvalidArgument if the key is too long or malformed.
TESSERA_API void check_key(std::string_view key);
/// Throws InvalidArgument if the value is too long.
TESSERA_API void check_value(std::string_view key, std::string_view value);

}  // namespace tessera::comm
