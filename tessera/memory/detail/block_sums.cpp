#include "tessera/memory/detail/block_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::memory::detail {
namespace {

struct Sum {
  std::uint64_t nbytes = 0;
  std::uint64_t blocks = 0;
  void add(std::uint64_t more) {
    nbytes += more;
    ++blocks;
  }
};

template <class Visit>
void for_each_block(const Snapshot& snapshot, BlockState state, Visit visit) {
  for (const SegmentView& segment : snapshot.segments) {
    for (const BlockView& block : segment.blocks) {
      if (block.state == state) visit(segment, block);
    }
  }
}

// Largest first; equal ones stay in the order of their keys.
template <class Row>
void sort_by_nbytes(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.nbytes > b.nbytes; });
}

std::vector<NamedSum> named(const std::map<std::string, Sum>& sums) {
  std::vector<NamedSum> rows;
  for (const auto& [name, sum] : sums) rows.push_back({name, sum.nbytes, sum.blocks});
  sort_by_nbytes(rows);
  return rows;
}

}  // namespace

std::vector<NamedSum> live_by_label(const Snapshot& snapshot) {
  std::map<std::string, Sum> sums;
  for_each_block(snapshot, BlockState::kLive,
                 [&](const SegmentView&, const BlockView& block) { sums[block.label].add(block.requested_nbytes); });
  return named(sums);
}

std::vector<NamedSum> live_by_call_site(const Snapshot& snapshot) {
  std::map<std::string, Sum> sums;
  for_each_block(snapshot, BlockState::kLive, [&](const SegmentView&, const BlockView& block) {
    if (!block.stack.empty()) sums[block.stack].add(block.requested_nbytes);
  });
  return named(sums);
}

std::vector<PendingSum> pending_by_stream(const Snapshot& snapshot) {
  std::map<std::vector<StreamId>, Sum> sums;
  for_each_block(snapshot, BlockState::kPending, [&](const SegmentView&, const BlockView& block) {
    std::vector<StreamId> streams = block.pending_streams;
    if (streams.empty()) streams.push_back(block.stream);
    std::sort(streams.begin(), streams.end());
    sums[streams].add(block.nbytes);
  });
  std::vector<PendingSum> rows;
  for (const auto& [streams, sum] : sums) rows.push_back({streams, sum.nbytes, sum.blocks});
  sort_by_nbytes(rows);
  return rows;
}

std::vector<CachedSum> cached_by_pool_and_stream(const Snapshot& snapshot) {
  std::map<std::pair<PoolId, StreamId>, Sum> sums;
  for_each_block(snapshot, BlockState::kCached, [&](const SegmentView& segment, const BlockView& block) {
    sums[{segment.pool, block.stream}].add(block.nbytes);
  });
  std::vector<CachedSum> rows;
  for (const auto& [key, sum] : sums) rows.push_back({key.first, key.second, sum.nbytes, sum.blocks});
  sort_by_nbytes(rows);
  return rows;
}

BlockRange largest_range(const Snapshot& snapshot, const PoolId* pool, bool with_pending) {
  BlockRange largest;
  for (const SegmentView& segment : snapshot.segments) {
    if (pool != nullptr && segment.pool != *pool) continue;
    BlockRange range{0, 0, segment.pool, segment.stream};
    for (const BlockView& block : segment.blocks) {
      const bool counts = block.state == BlockState::kCached || (with_pending && block.state == BlockState::kPending);
      if (!counts) {
        range.nbytes = 0;
        continue;
      }
      if (range.nbytes == 0) {
        range.address = block.address;
        range.stream = block.stream;
      }
      range.nbytes += block.nbytes;
      if (range.nbytes > largest.nbytes) largest = range;
    }
  }
  return largest;
}

std::string pool_name(const Snapshot& snapshot, PoolId pool) {
  for (const PoolView& view : snapshot.pools) {
    if (view.id == pool && !view.name.empty()) return fmt::format("pool '{}'", view.name);
  }
  return pool == PoolId{} ? "the default pool" : fmt::format("pool {}.{}", pool.graph, pool.user);
}

std::string stream_names(const std::vector<StreamId>& streams) {
  std::string text;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (i > 0) text += i + 1 == streams.size() ? " and " : ", ";
    text += to_string(streams[i]);
  }
  return text;
}

}  // namespace tessera::memory::detail
