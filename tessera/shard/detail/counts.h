// Counters for shard_counts().
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tessera/shard/scopes.h"

namespace tessera::shard::detail {

/// Atomic ShardCounts, shared by the threads of one rank.
struct AtomicShardCounts {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint64_t> automatic{0};
  std::atomic<std::uint64_t> collectives{0};
  std::atomic<std::uint64_t> nbytes{0};
};
/// Returns the counters of the current rank.
AtomicShardCounts& counters();

/// Throws if communication is forbidden. `what` describes the request: "softmax cooperates over tp".
void check_may_communicate(std::string_view what);

}  // namespace tessera::shard::detail
