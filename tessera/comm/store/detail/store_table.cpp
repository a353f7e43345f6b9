#include "tessera/comm/store/detail/store_table.h"

#include <charconv>

#include "tessera/base/error.h"

namespace tessera::comm::detail {

std::int64_t added(std::string_view key, std::optional<std::string_view> text, std::int64_t by) {
  std::int64_t number = 0;
  if (text) {
    const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
    TESSERA_CHECK(problem == std::errc() && end == text->data() + text->size(), "store: add to key '", key,
                  "': the value must be a 64-bit integer, got '", text->substr(0, 40), "'");
  }
  std::int64_t sum = 0;
  TESSERA_CHECK(!__builtin_add_overflow(number, by, &sum), "store: add to key '", key, "': the sum of ", number,
                " and ", by, " exceeds 64 bits");
  return sum;
}

const std::string* StoreTable::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

void StoreTable::set(std::string_view key, std::string_view value) {
  const auto at = values_.lower_bound(key);
  if (at != values_.end() && at->first == key) {
    at->second.assign(value);
  } else {
    values_.emplace_hint(at, key, value);
  }
}

std::int64_t StoreTable::add(std::string_view key, std::int64_t by) {
  const std::string* old = find(key);
  const std::int64_t sum = added(key, old != nullptr ? std::optional<std::string_view>(*old) : std::nullopt, by);
  set(key, std::to_string(sum));
  return sum;
}

bool StoreTable::is(std::string_view key, std::optional<std::string_view> expected) const {
  const std::string* value = find(key);
  return value == nullptr ? !expected : expected && *value == *expected;
}

bool StoreTable::compare_set(std::string_view key, std::optional<std::string_view> expected, std::string_view desired) {
  const bool is_as_expected = is(key, expected);
  if (is_as_expected) set(key, desired);
  return is_as_expected;
}

bool StoreTable::remove(std::string_view key) {
  const auto at = values_.find(key);
  if (at == values_.end()) return false;
  values_.erase(at);
  return true;
}

}  // namespace tessera::comm::detail
