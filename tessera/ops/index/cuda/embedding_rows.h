// Arguments of the kernel in embedding_rows.cu, shared by host and device.
#pragma once

#include <cstdint>

namespace tessera::ops::cuda {

/// Maximum number of unmerged dimensions of an index, and of levels of a row map.
inline constexpr int kMaxIndexDims = 8;
inline constexpr int kMaxRowLevels = 4;

/// A call of embedding. Strides are in elements.
struct EmbeddingRows {
  void* to = nullptr;
  const void* from = nullptr;
  const void* index = nullptr;
  std::int64_t* refused = nullptr;  // pinned; receives an index that is out of range, see refused_word(), or null
  bool is_wide = true;              // indices are i64
  bool has_map = false;             // the shard holds only some rows
  bool has_words = false;           // rows can be copied in words of 16 bytes
  std::int32_t itemsize = 4;
  std::int64_t rows = 0;   // rows of the global table
  std::int64_t width = 0;  // in elements, or in words of 16 bytes
  std::int64_t row_step = 0, from_step = 1, to_step = 1;
  std::int64_t count = 0;  // number of indices
  std::int32_t ndim = 0;
  std::int32_t nlevels = 0;
  std::int64_t sizes[kMaxIndexDims] = {};
  std::int64_t to_strides[kMaxIndexDims] = {};
  std::int64_t index_strides[kMaxIndexDims] = {};
  std::int64_t offset = 0, block = 0;  // of the map, as layout::IndexMap
  std::uint64_t refused_item[2] = {};  // 16 bytes of elements of a row whose index is out of range
  std::int64_t counts[kMaxRowLevels] = {};
  std::int64_t strides[kMaxRowLevels] = {};
};

/// Encodes a rejected index; 0 means that no index was rejected.
constexpr std::int64_t refused_word(std::int64_t index) { return index != 0 ? index : INT64_MIN; }

}  // namespace tessera::ops::cuda
