// LRU cache of the entries of this process, with a maximum size. It has several locks, selected by hash, because ranks
// that are threads of one process look up entries concurrently.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tessera/shard/detail/dispatch_plan.h"

namespace tessera::shard::detail {

/// Entries by call. Thread-safe.
class EntryCache {
 public:
  /// Keeps at most `capacity` entries, divided evenly among the locks.
  explicit EntryCache(std::size_t capacity);
  /// Returns the cache that dispatch uses.
  static EntryCache& of_process();

  /// Returns the entry of a call, or null.
  std::shared_ptr<const DispatchPlan> find(const tensor::Call& call, std::uint64_t hash);
  /// Adds an entry. Returns the number of evicted entries.
  std::size_t add(std::shared_ptr<const DispatchPlan> entry);
  /// Returns the number of entries.
  [[nodiscard]] std::size_t size() const;

 private:
  using Order = std::list<std::shared_ptr<const DispatchPlan>>;  // most recently used first
  struct CacheShard {
    mutable std::mutex mutex;
    Order order;
    std::unordered_map<std::uint64_t, Order::iterator> by_hash;
  };
  static constexpr std::size_t kParts = 16;
  CacheShard& part_of(std::uint64_t hash) { return parts_[hash >> 32 & (kParts - 1)]; }

  CacheShard parts_[kParts];
  std::size_t max_;  // maximum per lock
};

}  // namespace tessera::shard::detail
