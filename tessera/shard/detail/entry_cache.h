// The entries of this process, found by the key of a call. Bounded: the least recently used go first. Several locks, by
// hash, since ranks that are threads of one process look things up at the same time.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tessera/shard/detail/entry.h"

namespace tessera::shard::detail {

/// See the head of this file. Thread-safe.
class EntryCache {
 public:
  /// Keeps at most `capacity` entries, evenly among the locks.
  explicit EntryCache(std::size_t capacity);
  /// The one that dispatch uses.
  static EntryCache& of_process();

  /// The entry of a call; null: none is kept.
  std::shared_ptr<const Entry> find(const tensor::Call& call, std::uint64_t hash);
  /// Keeps an entry; how many others were dropped for it.
  std::size_t add(std::shared_ptr<const Entry> entry);
  /// Kept now.
  [[nodiscard]] std::size_t size() const;

 private:
  using Order = std::list<std::shared_ptr<const Entry>>;  // the latest used first
  struct Part {
    mutable std::mutex mutex;
    Order order;
    std::unordered_map<std::uint64_t, Order::iterator> by_hash;
  };
  static constexpr std::size_t kParts = 16;
  Part& part_of(std::uint64_t hash) { return parts_[hash >> 32 & (kParts - 1)]; }

  Part parts_[kParts];
  std::size_t most_;  // of a part
};

}  // namespace tessera::shard::detail
