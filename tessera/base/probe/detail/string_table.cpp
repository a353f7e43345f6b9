#include "tessera/base/probe/detail/string_table.h"

#include <cstring>
#include <mutex>

namespace tessera::probe::detail {

std::uint32_t string_check(std::string_view text) {
  std::uint64_t sum = words_check(nullptr, 0, text.size());
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
    sum = words_check(&word, 1, sum);
  }
  return static_cast<std::uint32_t>(sum >> 32 ^ sum);
}

StringTable::StringTable(std::byte* section, std::uint64_t nbytes)
    : head_(reinterpret_cast<StringsHead*>(section)),
      entries_(section + sizeof(StringsHead)),
      capacity_(nbytes - sizeof(StringsHead)) {}

StringId StringTable::intern(std::string_view text) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = known_.find(text); found != known_.end()) return found->second;
  }
  const std::unique_lock lock(mutex_);
  if (const auto found = known_.find(text); found != known_.end()) return found->second;
  const StringId id = append(text);
  if (id != StringId{}) known_.emplace(text, id);
  return id;
}

StringId StringTable::append(std::string_view text) {
  const std::uint64_t used = head_->used;
  const std::uint64_t nbytes = sizeof(StringEntry) + ((text.size() + 7) & ~std::size_t{7});
  if (text.size() > capacity_ || nbytes > capacity_ - used) {
    std::atomic_ref<std::uint64_t>(head_->dropped).fetch_add(1, std::memory_order_relaxed);
    return StringId{};
  }
  const StringEntry entry{static_cast<std::uint32_t>(text.size()), string_check(text)};
  std::memcpy(entries_ + used, &entry, sizeof entry);
  if (!text.empty()) std::memcpy(entries_ + used + sizeof entry, text.data(), text.size());
  // Readers trust the bytes below `used`; the process may die before this store.
  std::atomic_ref<std::uint64_t>(head_->used).store(used + nbytes, std::memory_order_release);
  return StringId{static_cast<std::uint32_t>(used / 8 + 1)};
}

}  // namespace tessera::probe::detail
