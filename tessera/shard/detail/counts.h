// The counters behind shard_counts(), for those who count.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tessera/shard/scopes.h"

namespace tessera::shard::detail {

/// As ShardCounts. Threads of one rank count together.
struct Counters {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint64_t> automatic{0};
  std::atomic<std::uint64_t> collectives{0};
  std::atomic<std::uint64_t> nbytes{0};
};
/// Of the current rank.
Counters& counters();

/// Refuses communication where it is forbidden; `what` wants it: "softmax cooperates over tp".
void check_may_communicate(std::string_view what);

}  // namespace tessera::shard::detail
