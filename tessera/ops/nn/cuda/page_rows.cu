// write_pages: copies rows of new tokens to the pages of their sequences. A thread moves an item of up to 16 bytes.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/rejections.cuh"
#include "tessera/ops/nn/cuda/page_rows.h"

namespace tessera::ops::cuda {
namespace {

// Returns the page of a token; -1, which it reports, if the tables do not hold it.
__device__ std::int64_t page_of(const PageRowsWrite& of, std::int64_t sequence, std::int64_t token,
                                std::int64_t& start) {
  start = of.starts[sequence * of.start_step];
  if (start < 0) {
    reject(of.rejection, Rejected::kStart, start, 0, sequence);
    return -1;
  }
  const std::int64_t used = (start + of.tokens + of.page_tokens - 1) / of.page_tokens;
  if (used > of.columns) {
    reject(of.rejection, Rejected::kColumns, used, of.columns, sequence);
    return -1;
  }
  const std::int64_t column = (start + token) / of.page_tokens;
  const std::int64_t page = of.tables[sequence * of.table_steps[0] + column * of.table_steps[1]];
  if (page >= 0 && page < of.page_count) return page;
  reject(of.rejection, Rejected::kPage, page, of.page_count, sequence);
  return -1;
}

template <class Item>
__device__ void write_rows(const PageRowsWrite& of) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < of.walk.numel; i += stride) {
    std::int64_t at[4];
    offsets_at(of.walk, i, at);
    const Item item = static_cast<const Item*>(of.rows)[at[0]];
    std::int64_t start;
    const std::int64_t page = page_of(of, at[2], at[3], start);
    if (page < 0) continue;
    const std::int64_t token = (start + at[3]) % of.page_tokens;
    static_cast<Item*>(of.pages)[at[1] + page * of.page_step + token * of.token_step] = item;
  }
}

}  // namespace

#define TESSERA_PAGE_ROWS(nbytes, Item)                                    \
  extern "C" __global__ void __launch_bounds__(256)                        \
      write_page_rows_##nbytes(const __grid_constant__ PageRowsWrite of) { \
    write_rows<Item>(of);                                                  \
  }
TESSERA_PAGE_ROWS(1, std::uint8_t)
TESSERA_PAGE_ROWS(2, std::uint16_t)
TESSERA_PAGE_ROWS(4, std::uint32_t)
TESSERA_PAGE_ROWS(8, std::uint64_t)
TESSERA_PAGE_ROWS(16, uint4)

}  // namespace tessera::ops::cuda
