// Arguments of the attention kernels, shared by host and device.
//
// A block computes a tile of rows of one group: queries of one head, or keys of one kv head. With pages, the queries of
// all heads that share a kv head are one group, numbered (head, token).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// The address and strides of a tensor [batch, heads, sequence, width]. If data is null, the tensor is absent.
struct AttentionTensor {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t batch = 0, head = 0, row = 0, col = 1;
};

/// Keys in [begin, end). A query of a packed sequence with invalid offsets has a begin of -1.
struct KeyRange {
  std::int32_t begin, end;
};

/// Sequences of variable length: n + 1 offsets of queries and of keys, each i64 or i32. Null: one per batch.
struct AttentionOffsets {
  const void* q = nullptr;
  const void* k = nullptr;
  std::int64_t q_step = 1, k_step = 1;
  DType q_dtype = DType::kI64, k_dtype = DType::kI64;
  std::int32_t sequences = 0;
};

/// Keys and values in pages (paged_attention.h). Without pages, `tokens` is 0.
struct AttentionPages {
  const std::int64_t* tables = nullptr;
  const std::int64_t* starts = nullptr;
  std::int64_t table_batch = 0, table_step = 1, start_step = 1;
  std::int32_t columns = 0, count = 0, tokens = 0;  // of a table; pages; tokens of a page
  std::int32_t splits = 1;                          // blocks that share the keys of a tile
  void* sums = nullptr;                             // with several splits: maximum and sum of each row and split,
  void* parts = nullptr;                            // and its part of the result, f32 (f64 for f64)
};

/// A call of attention or its gradient.
struct AttentionArgs {
  AttentionTensor q, k, v, out, logsumexp;
  AttentionTensor grad, grad_logsumexp, dq, dk, dv;  // backward
  AttentionOffsets offsets;
  KeyRange* ranges = nullptr;  // keys of each query, if there are offsets
  /// Backward: of each query, the logsumexp (+infinity without keys) in the unit of the kernel, and delta = sum(grad
  /// out) - grad_logsumexp. f32 (f64 for f64).
  void* statistics = nullptr;
  std::int32_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, d = 0, e = 0;
  std::int32_t groups = 0, rows = 0;              // groups per batch, and rows of a group
  std::int64_t shift = 0, left = -1, right = -1;  // query i is at i + shift; negative windows have no bound
  bool is_bottom_right = false;                   // of packed sequences: each has its own shift
  double scale = 1;
  AttentionPages pages;
};

/// Threads of a block of the plain kernels, and of the kernels with tensor cores.
inline constexpr std::uint32_t kPlainThreads = 256;
inline constexpr std::uint32_t kTensorThreads = 128;
/// Rows per block of the kernels with tensor cores.
inline constexpr std::int32_t kTensorRows = 64;

/// Returns the columns of a tile of the kernels with tensor cores for rows of up to `width` elements.
constexpr int tensor_columns(int width) { return width <= 128 ? 64 : 32; }
/// Returns the dynamic shared memory of such a kernel: rows, two stages of columns, and statistics of the columns.
constexpr std::uint32_t tensor_shared_nbytes(int width, bool is_backward) {
  const int columns = tensor_columns(width);
  const int rows = kTensorRows * (is_backward ? 2 : 1);
  return static_cast<std::uint32_t>((rows + 4 * columns) * width * 2 + (is_backward ? 2 * columns * 16 : 0));
}

}  // namespace tessera::ops::cuda
