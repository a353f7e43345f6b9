#include "tessera/comm/store/store.h"

#include "tessera/base/error.h"
#include "tessera/comm/store/detail/deadline.h"

namespace tessera::comm {

std::string Store::get(std::string_view key, std::chrono::nanoseconds timeout) {
  const auto deadline = detail::deadline_after(timeout);
  const std::string keys[] = {std::string(key)};
  for (std::chrono::nanoseconds left = timeout;; left = deadline - detail::Clock::now()) {
    if (std::optional<std::string> value = find(key)) return *std::move(value);
    // If the value is removed between the wait and the find, waits again.
    wait(keys, left);
  }
}

void check_key(std::string_view key) {
  TESSERA_CHECK(!key.empty(), "store: a key must not be empty");
  TESSERA_CHECK(key.size() <= Store::kMaxKeyBytes, "store: key '", key.substr(0, 40), "...' must have at most ",
                Store::kMaxKeyBytes, " bytes, got ", key.size());
  TESSERA_CHECK(key.find_first_of(std::string_view("\n\r\0", 3)) == std::string_view::npos, "store: key '",
                key.substr(0, key.find_first_of(std::string_view("\n\r\0", 3))),
                "...' must not contain a line end or a zero byte");
}

void check_value(std::string_view key, std::string_view value) {
  TESSERA_CHECK(value.size() <= Store::kMaxValueBytes, "store: the value for key '", key, "' must have at most ",
                Store::kMaxValueBytes, " bytes, got ", value.size());
}

}  // namespace tessera::comm
