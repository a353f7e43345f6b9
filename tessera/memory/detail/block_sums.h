// Sums over the blocks of a snapshot, for reports. Each list is complete and sorted, largest first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/memory/snapshot.h"

namespace tessera::memory::detail {

/// Bytes of a name.
struct NamedSum {
  std::string name;
  std::uint64_t nbytes = 0;
  std::uint64_t blocks = 0;
};

/// Bytes that wait for the same streams.
struct PendingSum {
  std::vector<StreamId> streams;
  std::uint64_t nbytes = 0;
  std::uint64_t blocks = 0;
};

/// Bytes that one pool caches for one stream.
struct CachedSum {
  PoolId pool;
  StreamId stream;
  std::uint64_t nbytes = 0;
  std::uint64_t blocks = 0;
};

/// Adjacent blocks of one segment that are free or pending.
struct BlockRange {
  std::uint64_t address = 0;
  std::uint64_t nbytes = 0;
  PoolId pool;
  StreamId stream;
};

std::vector<NamedSum> live_by_label(const Snapshot& snapshot);  // requested bytes
// requested bytes by stack; blocks without a stack are omitted
std::vector<NamedSum> live_by_call_site(const Snapshot& snapshot);
std::vector<PendingSum> pending_by_stream(const Snapshot& snapshot);
std::vector<CachedSum> cached_by_pool_and_stream(const Snapshot& snapshot);
/// Returns the largest range of cached and optionally pending blocks in a pool; null: in any pool.
BlockRange largest_range(const Snapshot& snapshot, const PoolId* pool, bool with_pending);
/// Returns "pool 'decode'", or its number if it has no name.
std::string pool_name(const Snapshot& snapshot, PoolId pool);
/// Returns "3" or "3 and 5".
std::string stream_names(const std::vector<StreamId>& streams);

}  // namespace tessera::memory::detail
