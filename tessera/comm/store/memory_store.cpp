#include "tessera/comm/store/memory_store.h"

#include <condition_variable>
#include <mutex>

#include "tessera/base/fork.h"
#include "tessera/comm/store/detail/deadline.h"
#include "tessera/comm/store/detail/store_table.h"

namespace tessera::comm {

struct MemoryStore::State {
  const OwnerProcess owner;
  std::mutex mutex;
  std::condition_variable changed;  // a key without a value got one
  detail::StoreTable table;

  std::mutex& own() {
    owner.check("store");
    return mutex;
  }
};

MemoryStore::MemoryStore() : state_(std::make_unique<State>()) {}
MemoryStore::~MemoryStore() = default;

void MemoryStore::set(std::string_view key, std::string_view value) {
  check_key(key);
  check_value(key, value);
  {
    const std::lock_guard lock(state_->own());
    state_->table.set(key, value);
  }
  state_->changed.notify_all();
}

std::optional<std::string> MemoryStore::find(std::string_view key) {
  check_key(key);
  const std::lock_guard lock(state_->own());
  const std::string* value = state_->table.find(key);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

std::int64_t MemoryStore::add(std::string_view key, std::int64_t by) {
  check_key(key);
  std::int64_t sum = 0;
  {
    const std::lock_guard lock(state_->own());
    sum = state_->table.add(key, by);
  }
  state_->changed.notify_all();
  return sum;
}

std::optional<std::string> MemoryStore::compare_set(std::string_view key, std::optional<std::string_view> expected,
                                                    std::string_view desired) {
  check_key(key);
  check_value(key, desired);
  if (expected) check_value(key, *expected);
  {
    const std::lock_guard lock(state_->own());
    if (!state_->table.compare_set(key, expected, desired)) {
      const std::string* other = state_->table.find(key);
      return other != nullptr ? std::optional(*other) : std::nullopt;
    }
  }
  state_->changed.notify_all();
  return std::string(desired);
}

void MemoryStore::wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) {
  for (const std::string& key : keys) check_key(key);
  const auto deadline = detail::deadline_after(timeout);
  std::unique_lock lock(state_->own());
  std::size_t next = 0;  // earlier keys have values; all are checked again at the end, since values may be removed
  const auto is_there = [&] {
    while (next < keys.size() && state_->table.find(keys[next]) != nullptr) ++next;
    if (next < keys.size()) return false;
    next = 0;
    while (next < keys.size() && state_->table.find(keys[next]) != nullptr) ++next;
    return next == keys.size();
  };
  if (state_->changed.wait_until(lock, deadline, is_there)) return;
  detail::throw_timeout(text(), keys.size(), state_->table.missing(keys), timeout);
}

bool MemoryStore::remove(std::string_view key) {
  check_key(key);
  const std::lock_guard lock(state_->own());
  return state_->table.remove(key);
}

std::vector<std::string> MemoryStore::keys(std::string_view prefix) {
  const std::lock_guard lock(state_->own());
  std::vector<std::string> found;
  state_->table.for_keys(prefix, [&](const std::string& key) {
    found.push_back(key);
    return true;
  });
  return found;
}

std::string MemoryStore::text() const { return "memory store"; }

}  // namespace tessera::comm
