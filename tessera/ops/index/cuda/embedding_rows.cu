// Copies rows of a table at indices, one warp per row. A row that the shard does not hold is zeros, and one whose index
// is out of range repeats the refused item. One of the indices out of range is stored for the host to report.
#include <cstdint>

#include "tessera/ops/index/cuda/embedding_rows.h"

namespace tessera::ops::cuda {
namespace {

__device__ void find(const EmbeddingRows& of, std::int64_t i, std::int64_t& to, std::int64_t& index) {
  to = 0;
  index = 0;
  for (int d = of.ndim; d-- > 0;) {
    const std::int64_t digit = i % of.sizes[d];
    i /= of.sizes[d];
    to += digit * of.to_strides[d];
    index += digit * of.index_strides[d];
  }
}

// Returns the local row of a global row; -1 if the shard does not hold it.
__device__ std::int64_t local_row(const EmbeddingRows& of, std::int64_t row) {
  if (!of.has_map) return row;
  if (row < of.offset) return -1;
  std::int64_t rest = row - of.offset;
  std::int64_t at = 0;
  for (int l = 0; l < of.nlevels; ++l) {
    const std::int64_t place = rest / of.strides[l];
    if (place >= of.counts[l]) return -1;
    rest -= place * of.strides[l];
    at = at * of.counts[l] + place;
  }
  return rest < of.block ? at * of.block + rest : -1;
}

template <class Item>
__device__ void move_row(const EmbeddingRows& of, std::int64_t to, std::int64_t row, bool is_inside) {
  for (std::int64_t i = threadIdx.x % 32; i < of.width; i += 32) {
    Item item{};
    if (!is_inside) memcpy(&item, of.refused_item, sizeof item);
    if (row >= 0) item = static_cast<const Item*>(of.from)[row * of.row_step + i * of.from_step];
    static_cast<Item*>(of.to)[to + i * of.to_step] = item;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) embedding_rows(const __grid_constant__ EmbeddingRows of) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  for (std::int64_t i = first; i < of.count; i += warps) {
    std::int64_t to;
    std::int64_t at;
    find(of, i, to, at);
    const std::int64_t index =
        of.is_wide ? static_cast<const std::int64_t*>(of.index)[at] : static_cast<const std::int32_t*>(of.index)[at];
    const bool is_inside = index >= 0 && index < of.rows;
    if (!is_inside && of.refused != nullptr && threadIdx.x % 32 == 0)
      *static_cast<volatile std::int64_t*>(of.refused) = refused_word(index);
    const std::int64_t row = is_inside ? local_row(of, index) : -1;
    if (of.has_words) {
      move_row<uint4>(of, to, row, is_inside);
      continue;
    }
    switch (of.itemsize) {
      case 1: move_row<std::uint8_t>(of, to, row, is_inside); break;
      case 2: move_row<std::uint16_t>(of, to, row, is_inside); break;
      case 4: move_row<std::uint32_t>(of, to, row, is_inside); break;
      case 8: move_row<std::uint64_t>(of, to, row, is_inside); break;
      default: move_row<uint4>(of, to, row, is_inside); break;
    }
  }
}

}  // namespace tessera::ops::cuda
