#include "tessera/comm/store/prefix_store.h"

#include "tessera/base/error.h"

namespace tessera::comm {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> under)
    : prefix_(std::move(prefix) + "/"), under_(std::move(under)) {
  TESSERA_CHECK(under_ != nullptr, "prefix store '", prefix_, "': the store under it must not be null");
  check_key(prefix_);
}

// An empty key would become the prefix itself, so it is rejected here.
std::string PrefixStore::full(std::string_view key) const {
  check_key(key);
  return prefix_ + std::string(key);
}

void PrefixStore::set(std::string_view key, std::string_view value) { under_->set(full(key), value); }
std::optional<std::string> PrefixStore::find(std::string_view key) { return under_->find(full(key)); }
std::int64_t PrefixStore::add(std::string_view key, std::int64_t by) { return under_->add(full(key), by); }
std::optional<std::string> PrefixStore::compare_set(std::string_view key, std::optional<std::string_view> expected,
                                                    std::string_view desired) {
  return under_->compare_set(full(key), expected, desired);
}

void PrefixStore::wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::string& key : keys) names.push_back(full(key));
  under_->wait(names, timeout);
}

bool PrefixStore::remove(std::string_view key) { return under_->remove(full(key)); }

std::vector<std::string> PrefixStore::keys(std::string_view prefix) {
  std::vector<std::string> names = under_->keys(prefix_ + std::string(prefix));
  for (std::string& name : names) name.erase(0, prefix_.size());
  return names;
}

std::string PrefixStore::text() const { return "'" + prefix_ + "' of " + under_->text(); }

}  // namespace tessera::comm
