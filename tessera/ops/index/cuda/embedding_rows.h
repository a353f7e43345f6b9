// What the kernel of embedding_rows.cu takes: shared by the host and the device.
#pragma once

#include <cstdint>

namespace tessera::ops::cuda {

/// The most dimensions of an index that do not lie as one with those of the result, and levels of a map of rows.
inline constexpr int kMostIndexDims = 8;
inline constexpr int kMostRowLevels = 4;

/// A call of embedding. Steps are in elements.
struct EmbeddingRows {
  void* to = nullptr;
  const void* from = nullptr;
  const void* index = nullptr;
  std::int64_t* refused = nullptr;  // pinned: an index that is out of range is left here, see refused_word()
  bool is_wide = true;              // indices are i64
  bool has_map = false;             // only some of the rows are here
  bool has_words = false;           // rows can be moved by 16 bytes
  std::int32_t itemsize = 4;
  std::int64_t rows = 0;   // of the whole table
  std::int64_t width = 0;  // in elements, or in words of 16 bytes
  std::int64_t row_step = 0, from_step = 1, to_step = 1;
  std::int64_t count = 0;  // of indices
  std::int32_t ndim = 0;
  std::int32_t nlevels = 0;
  std::int64_t sizes[kMostIndexDims] = {};
  std::int64_t to_strides[kMostIndexDims] = {};
  std::int64_t index_strides[kMostIndexDims] = {};
  std::int64_t offset = 0, block = 0;  // of the map, as layout::IndexMap
  std::int64_t counts[kMostRowLevels] = {};
  std::int64_t strides[kMostRowLevels] = {};
};

/// How an index is left behind: 0 says that none was refused.
constexpr std::int64_t refused_word(std::int64_t index) { return index != 0 ? index : INT64_MIN; }

}  // namespace tessera::ops::cuda
