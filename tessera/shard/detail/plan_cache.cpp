#include "tessera/shard/detail/plan_cache.h"

#include <algorithm>

namespace tessera::shard::detail {

EntryCache::EntryCache(std::size_t capacity) : max_(std::max<std::size_t>(1, capacity / kParts)) {}

EntryCache& EntryCache::of_process() {
  static EntryCache* const cache = new EntryCache(8192);  // NOLINT(cppcoreguidelines-owning-memory): used to the end
  return *cache;
}

std::shared_ptr<const DispatchPlan> EntryCache::find(const tensor::Call& call, std::uint64_t hash) {
  CacheShard& part = part_of(hash);
  const std::lock_guard lock(part.mutex);
  const auto found = part.by_hash.find(hash);
  if (found == part.by_hash.end() || !(*found->second)->matches(call)) return nullptr;
  part.order.splice(part.order.begin(), part.order, found->second);
  return *found->second;
}

std::size_t EntryCache::add(std::shared_ptr<const DispatchPlan> entry) {
  CacheShard& part = part_of(entry->hash);
  Order dropped;  // destroyed without the lock
  const std::lock_guard lock(part.mutex);
  const std::uint64_t hash = entry->hash;
  if (const auto same = part.by_hash.find(hash); same != part.by_hash.end()) {
    dropped.splice(dropped.begin(), part.order, same->second);  // hash collision, or added by another rank meanwhile
    part.by_hash.erase(same);
    part.order.push_front(std::move(entry));
    part.by_hash[hash] = part.order.begin();
    return 0;
  }
  part.order.push_front(std::move(entry));
  part.by_hash[hash] = part.order.begin();
  if (part.order.size() <= max_) return 0;
  part.by_hash.erase(part.order.back()->hash);
  dropped.splice(dropped.begin(), part.order, std::prev(part.order.end()));
  return 1;
}

std::size_t EntryCache::size() const {
  std::size_t all = 0;
  for (const CacheShard& part : parts_) {
    const std::lock_guard lock(part.mutex);
    all += part.order.size();
  }
  return all;
}

}  // namespace tessera::shard::detail
