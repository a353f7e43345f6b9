// Places, masks and weights that all attention kernels share.
#pragma once

#include <cstdint>

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/nn/cuda/attention_args.h"

namespace tessera::ops::cuda {

/// The result that a kernel computes. Rows are keys for dk and dv, otherwise queries.
enum class AttentionMode : std::uint8_t { kOut, kDq, kDk, kDv, kDkDv };
/// Returns true if the rows are keys.
constexpr bool has_key_rows(AttentionMode mode) {
  return mode == AttentionMode::kDk || mode == AttentionMode::kDv || mode == AttentionMode::kDkDv;
}
/// Returns true if the weights are gradients of scores.
constexpr bool has_score_gradients(AttentionMode mode) {
  return mode == AttentionMode::kDq || mode == AttentionMode::kDk || mode == AttentionMode::kDkDv;
}

/// Offset of a row that does not exist.
inline constexpr std::int64_t kNoRow = INT64_MIN;

/// Returns true if keys and values are in pages.
__device__ inline bool has_pages(const AttentionArgs& of) { return of.pages.tokens > 0; }

/// The tile of a block.
struct AttentionTile {
  std::int32_t batch, kv_head, first, count;  // rows [first, first + count) of the group
  std::int32_t head;                          // first query head of the group
};

/// Returns the tile of this block: tiles of a group are neighbors. The last queries come first, as causal masks give
/// them the most keys.
template <bool kKeyRows>
__device__ inline AttentionTile tile_of(const AttentionArgs& of, int tile_rows) {
  const std::int32_t rows = kKeyRows ? of.keys : of.rows;
  const std::int32_t groups = kKeyRows ? of.kv_heads : of.groups;
  const std::int32_t tiles = (rows + tile_rows - 1) / tile_rows;
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t group = block / tiles;
  const std::int32_t index = kKeyRows ? block % tiles : tiles - 1 - block % tiles;
  AttentionTile tile{};
  tile.batch = group / groups;
  tile.kv_head = static_cast<std::int32_t>(static_cast<std::int64_t>(group % groups) * of.kv_heads / groups);
  tile.head = static_cast<std::int32_t>(static_cast<std::int64_t>(group % groups) * of.heads / groups);
  tile.first = index * tile_rows;
  tile.count = min(tile_rows, rows - tile.first);
  return tile;
}

/// Returns the first token of a sequence in pages, before the new ones.
__device__ inline std::int64_t start_of(const AttentionArgs& of, std::int32_t batch) {
  return of.pages.starts[batch * of.pages.start_step];
}

/// Returns the keys of a query, in a packed sequence, in pages or in a plain one.
__device__ inline KeyRange keys_of(const AttentionArgs& of, std::int32_t batch, std::int32_t query) {
  if (of.ranges != nullptr) return of.ranges[query];
  std::int64_t keys = of.keys;
  std::int64_t place = query + of.shift;
  if (has_pages(of)) {
    const std::int64_t start = start_of(of, batch);
    place = start + query;
    keys = start < 0 ? 0 : min(start + of.queries, of.pages.columns * static_cast<std::int64_t>(of.pages.tokens));
  }
  const std::int64_t end = of.right < 0 ? keys : max(std::int64_t{0}, min(place + of.right + 1, keys));
  const std::int64_t begin = of.left < 0 ? 0 : max(std::int64_t{0}, min(place - of.left, end));
  return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
}

/// Returns true if the tables of a sequence cannot hold its tokens.
__device__ inline bool lacks_columns(const AttentionArgs& of, std::int32_t batch) {
  const std::int64_t start = start_of(of, batch);
  return start < 0 || start + of.queries > of.pages.columns * static_cast<std::int64_t>(of.pages.tokens);
}

/// Returns the queries that attend to some of the keys [first, end). Bounds of ranges never decrease.
__device__ inline KeyRange queries_of(const AttentionArgs& of, std::int32_t batch, std::int32_t first,
                                      std::int32_t end) {
  const auto count_while = [&](const auto& is_before) {
    std::int32_t low = 0;
    std::int32_t high = of.queries;
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (is_before(keys_of(of, batch, middle))) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  const std::int32_t begin = count_while([&](KeyRange keys) { return keys.end <= first; });
  return {begin, count_while([&](KeyRange keys) { return keys.begin < end; })};
}

/// Returns the offset of a row of a group of queries.
__device__ inline std::int64_t query_row(const AttentionArgs& of, const AttentionTensor& x, const AttentionTile& tile,
                                         std::int32_t row) {
  const std::int32_t head = row / of.queries;
  return tile.batch * x.batch + (tile.head + head) * x.head + (row - head * of.queries) * x.row;
}
/// Returns the index of a query in arrays [batch, heads, queries].
__device__ inline std::int64_t query_index(const AttentionArgs& of, std::int32_t batch, std::int32_t head,
                                           std::int32_t query) {
  return (static_cast<std::int64_t>(batch) * of.heads + head) * of.queries + query;
}
/// Returns the offset of a key or value; kNoRow if its page does not exist.
__device__ inline std::int64_t key_row(const AttentionArgs& of, const AttentionTensor& x, const AttentionTile& tile,
                                       std::int32_t key) {
  if (!has_pages(of)) return tile.batch * x.batch + tile.kv_head * x.head + key * x.row;
  const std::int32_t column = key / of.pages.tokens;
  const std::int64_t page = of.pages.tables[tile.batch * of.pages.table_batch + column * of.pages.table_step];
  if (page < 0 || page >= of.pages.count) return kNoRow;
  return page * x.batch + tile.kv_head * x.head + (key - column * of.pages.tokens) * x.row;
}

/// Returns the keys that this block of several takes from the keys of a tile.
__device__ inline KeyRange split_of(const AttentionArgs& of, KeyRange all, std::int32_t step) {
  const std::int32_t splits = of.pages.splits;
  if (splits == 1) return all;
  const std::int32_t each = ((all.end - all.begin + splits - 1) / splits + step - 1) / step * step;
  const std::int64_t begin = all.begin + static_cast<std::int64_t>(blockIdx.z) * each;
  return {static_cast<std::int32_t>(min(begin, static_cast<std::int64_t>(all.end))),
          static_cast<std::int32_t>(min(begin + each, static_cast<std::int64_t>(all.end)))};
}
/// Returns the index of a row and split in the parts of a result.
__device__ inline std::int64_t part_index(const AttentionArgs& of, const AttentionTile& tile, std::int32_t row) {
  const std::int64_t group = static_cast<std::int64_t>(tile.batch) * of.groups + tile.kv_head;
  return (group * of.rows + row) * of.pages.splits + blockIdx.z;
}

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
template <class T>
__device__ constexpr T infinity() {
  return static_cast<T>(__builtin_huge_val());
}

}  // namespace tessera::ops::cuda
