// Small values under names that all ranks share: where ranks meet before they can talk to each other. In memory (ranks
// that are threads), in a directory (processes that share a file system), behind a socket (tessera run hosts it), or
// any of them under a prefix. Values are bytes; keys are text without a line end, at most kMostKeyBytes.
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

/// A store. Thread-safe; a call that waits keeps no other call of the same object waiting.
class TESSERA_API Store {
 public:
  /// The longest key.
  static constexpr std::size_t kMostKeyBytes = 1024;
  /// The longest value.
  static constexpr std::size_t kMostValueBytes = std::size_t{4} << 20;

  virtual ~Store() = default;
  /// Sets a value, over one that is there.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// The value, if there is one now.
  virtual std::optional<std::string> find(std::string_view key) = 0;
  /// Adds to a value written as a decimal number, 0 where there is none, and returns the sum; an error when what is
  /// there is no number.
  virtual std::int64_t add(std::string_view key, std::int64_t by) = 0;
  /// Sets `desired` if the value is `expected` (nullopt: if there is none), in one step. Returns the value after that:
  /// `desired`, or the other that was there (nullopt: there is none).
  virtual std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                                 std::string_view desired) = 0;
  /// Waits until all keys have values; TimeoutError names those that have none.
  virtual void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) = 0;
  /// Removes a value; whether there was one.
  virtual bool remove(std::string_view key) = 0;
  /// Keys that begin with `prefix`, sorted.
  virtual std::vector<std::string> keys(std::string_view prefix) = 0;
  /// "tcp store at 127.0.0.1:29500", for errors.
  [[nodiscard]] virtual std::string text() const = 0;

  /// The value, waited for.
  std::string get(std::string_view key, std::chrono::nanoseconds timeout);
};

/// InvalidArgument unless the key and the value fit.
TESSERA_API void check_key(std::string_view key);
/// Likewise.
TESSERA_API void check_value(std::string_view key, std::string_view value);

}  // namespace tessera::comm
