// Arguments of the kernels in page_rows.cu, shared by host and device. Offsets and strides count items.
#pragma once

#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/index/cuda/rejections.h"

namespace tessera::ops::cuda {

/// A call of write_pages.
struct PageRowsWrite {
  void* pages = nullptr;
  const void* rows = nullptr;
  const std::int64_t* tables = nullptr;
  const std::int64_t* starts = nullptr;
  std::int64_t table_steps[2] = {};  // per sequence, per column; in elements
  std::int64_t start_step = 0;
  std::int64_t columns = 0;  // of the tables
  std::int64_t page_count = 0;
  std::int64_t page_tokens = 1;
  std::int64_t tokens = 0;      // new tokens of a sequence
  std::int64_t page_step = 0;   // between pages
  std::int64_t token_step = 0;  // between tokens of a page
  Rejection rejection;
  Walk walk;  // rows, pages without page and token, sequence, token
};

}  // namespace tessera::ops::cuda
