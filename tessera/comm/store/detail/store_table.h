// The operations on the values of a store, for all stores that keep them in memory: set, add and compare_set, without
// locks, waits or sockets. Keys have passed check_key, values check_value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::comm::detail {

/// Returns the sum of a decimal number and `by`; nullopt counts as 0. Throws InvalidArgument, which names the key, if
/// the text is not a number or the sum overflows.
std::int64_t added(std::string_view key, std::optional<std::string_view> text, std::int64_t by);

/// Values by key. Not thread-safe.
class StoreTable {
 public:
  /// Returns the value, or null. Valid until the next change.
  [[nodiscard]] const std::string* find(std::string_view key) const;
  /// Sets a value.
  void set(std::string_view key, std::string_view value);
  /// Implements Store::add.
  std::int64_t add(std::string_view key, std::int64_t by);
  /// Implements Store::compare_set. Returns true if the value was set.
  bool compare_set(std::string_view key, std::optional<std::string_view> expected, std::string_view desired);
  /// Returns true if the value is `expected` (nullopt: if the key has none).
  [[nodiscard]] bool is(std::string_view key, std::optional<std::string_view> expected) const;
  /// Implements Store::remove.
  bool remove(std::string_view key);
  /// Calls `each` with every key that begins with `prefix`, in order, until it returns false.
  template <class Each>
  void for_keys(std::string_view prefix, Each&& each) const {
    for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix); ++at) {
      if (!each(at->first)) return;
    }
  }
  /// Returns the keys without a value, in their order.
  template <class Keys>
  [[nodiscard]] std::vector<std::string> missing(const Keys& keys) const {
    std::vector<std::string> none;
    for (const auto& key : keys) {
      if (find(key) == nullptr) none.emplace_back(key);
    }
    return none;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace tessera::comm::detail
