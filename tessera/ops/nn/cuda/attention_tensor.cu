// Attention of bf16 and f16, and its gradient, by tensor cores with f32 sums. Widths are multiples of 8 up to 256.
//
// Four warps own 16 rows each. A step takes the next columns, which arrive in shared memory while the previous step
// computes: scores S = rows columns^T, for a gradient also dP = rows2 columns2^T, the weights P or dS in registers, and
// results += weights columns. Rows are queries for out and dq, keys for dk and dv. A warp adds in a fixed order and
// shares no result, so that bits do not vary. Rows of tiles are stored in words of 16 bytes, whose order depends on the
// row, so that eight rows of a matrix lie in different banks.
#include "tessera/ops/nn/cuda/attention.cuh"

namespace tessera::ops::cuda {
namespace {

using Mode = AttentionMode;

constexpr float kLog2E = 1.4426950408889634F;

__device__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
// Copies 16 bytes to shared memory; zeros if the source does not exist.
__device__ void copy_word(std::uint32_t to, const void* from, bool is_one) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_one ? 16 : 0));
}
__device__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
__device__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Loads four 8 x 8 matrices; lane 8 m + r has the address of row r of matrix m.
__device__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
}
__device__ void load_matrices_turned(std::uint32_t (&to)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
}

struct Bf16 {
  // Returns two elements in one word, the first in the lower half.
  __device__ static std::uint32_t pair(float low, float high) {
    std::uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
  __device__ static void multiply_add(float (&to)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
struct F16 {
  __device__ static std::uint32_t pair(float low, float high) {
    std::uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
  __device__ static void multiply_add(float (&to)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// kWidth: widths of all operands, filled with zeros.
template <class E, int kWidth, Mode kMode>
class TensorBlock {
 public:
  __device__ explicit TensorBlock(const AttentionArgs& args) : of(args) {}

  __device__ void run() {
    extern __shared__ __align__(128) unsigned char memory[];
    rows_at = shared_address(memory);
    cols_at = rows_at + (kBackward ? 2 : 1) * kRowBytes;
    statistics = reinterpret_cast<float4*>(memory + (kBackward ? 2 : 1) * kRowBytes + 4 * kColBytes);
    tile = tile_of<kKeyRows>(of, kTensorRows);
    load_rows();
    find_steps();
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[n][i] = acc2[kHasTwo ? n : 0][i] = 0;
    }
    most[0] = most[1] = -infinity<float>();
    sum[0] = sum[1] = 0;
    if (steps > 0) load_cols(0);
    commit_copies();
    for (int at = 0; at < steps; ++at) {
      await_copies();
      __syncthreads();  // the columns have arrived, and no warp reads those of the previous step
      if (at + 1 < steps) load_cols(at + 1);
      commit_copies();
      step(at);
    }
    await_copies();
    store_results();
  }

 private:
  static constexpr bool kKeyRows = has_key_rows(kMode);
  static constexpr bool kBackward = kMode != Mode::kOut;
  static constexpr bool kHasTwo = kMode == Mode::kDkDv;
  static constexpr int kCols = tensor_columns(kWidth);
  static constexpr int kWords = kWidth / 8;  // of 16 bytes in a row
  static constexpr std::uint32_t kRowBytes = kTensorRows * kWidth * 2;
  static constexpr std::uint32_t kColBytes = kCols * kWidth * 2;

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int warp() { return static_cast<int>(threadIdx.x / 32); }
  // The row of the tile that holds elements 0, 1 (half 0) and 2, 3 (half 1) of a sum.
  __device__ static int thread_row(int half) { return warp() * 16 + half * 8 + lane() / 4; }
  // The address of a word of a row.
  __device__ static std::uint32_t word_at(std::uint32_t at, int row, int word) {
    return at + static_cast<std::uint32_t>(row * kWidth * 2 + ((word ^ (row & 7)) * 16));
  }

  // Starts to copy rows. `place` returns the offset of a row, or kNoRow.
  template <int kCount, class F>
  __device__ static void load_tile(std::uint32_t to, const AttentionTensor& x, int width, const F& place) {
#pragma unroll 8
    for (int i = 0; i < kCount * kWords / static_cast<int>(kTensorThreads); ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kTensorThreads);
      const int row = at / kWords;
      const int word = at % kWords;
      const std::int64_t offset = place(row);
      const bool is_one = offset != kNoRow && word * 8 < width;
      copy_word(word_at(to, row, word), x.data + (is_one ? (offset + word * 8) * 2 : 0), is_one);
    }
  }

  __device__ void load_rows() {
    const auto load = [&](std::uint32_t to, const AttentionTensor& x, int width) {
      load_tile<kTensorRows>(to, x, width, [&](int r) {
        if (r >= tile.count) return kNoRow;
        return kKeyRows ? key_row(of, x, tile, tile.first + r) : query_row(of, x, tile, tile.first + r);
      });
    };
    load(rows_at, kKeyRows ? of.k : of.q, of.d);
    if constexpr (kBackward) load(rows_at + kRowBytes, kKeyRows ? of.v : of.grad, of.e);
  }

  // Finds the ranges of this thread's rows, and the columns of the tile.
  __device__ void find_steps() {
    if constexpr (kKeyRows) {
      all = queries_of(of, tile.batch, tile.first, tile.first + tile.count);
      steps_each = (all.end - all.begin + kCols - 1) / kCols;
      steps = max(steps_each, 0) * (of.heads / of.kv_heads);
      return;
    }
    const bool is_paged = has_pages(of);
    is_invalid = is_paged && lacks_columns(of, tile.batch);
    for (int half = 0; half < 2; ++half) {
      const std::int32_t row = tile.first + min(thread_row(half), tile.count - 1);
      const std::int32_t query = is_paged ? row % of.queries : row;
      ranges[half] = keys_of(of, tile.batch, query);
      if constexpr (kBackward) {
        const auto* from = static_cast<const float2*>(of.statistics) + query_index(of, tile.batch, tile.head, query);
        logsumexp[half] = from->x;
        delta[half] = from->y;
      }
    }
    // Bounds never decrease from query to query. With pages, rows start again at each head.
    const bool is_wrapped = is_paged && tile.first % of.queries + tile.count > of.queries;
    const auto query = [&](std::int32_t row) { return is_paged ? row % of.queries : row; };
    all.begin = max(keys_of(of, tile.batch, is_wrapped ? 0 : query(tile.first)).begin, 0);
    all.end = keys_of(of, tile.batch, is_wrapped ? of.queries - 1 : query(tile.first + tile.count - 1)).end;
    all.end = max(all.begin, all.end);
    if constexpr (kMode == Mode::kOut) all = split_of(of, all, kCols);
    steps_each = steps = max(all.end - all.begin + kCols - 1, 0) / kCols;
  }

  [[nodiscard]] __device__ std::uint32_t stage(int at) const { return cols_at + (at % 2) * 2 * kColBytes; }
  [[nodiscard]] __device__ std::int32_t first_col(int at) const { return all.begin + at % steps_each * kCols; }

  // Starts to load the columns of a step.
  __device__ void load_cols(int at) {
    const std::int32_t first = first_col(at);
    const std::int32_t head = tile.head + (kKeyRows ? at / steps_each : 0);
    const auto load = [&](std::uint32_t to, const AttentionTensor& x, int width) {
      load_tile<kCols>(to, x, width, [&](int c) {
        const std::int32_t place = first + c;
        if (place >= all.end) return kNoRow;
        if constexpr (kKeyRows) return tile.batch * x.batch + head * x.head + place * x.row;
        const std::int64_t row = key_row(of, x, tile, place);
        if constexpr (kMode == Mode::kOut) is_invalid |= row == kNoRow;
        return row;
      });
    };
    load(stage(at), kKeyRows ? of.q : of.k, of.d);
    load(stage(at) + kColBytes, kKeyRows ? of.grad : of.v, of.e);
    if constexpr (kKeyRows) {
      // Of each query: logsumexp, delta and the bits of its range.
      const auto c = static_cast<std::int32_t>(threadIdx.x);
      if (c >= kCols) return;
      float4 value = {infinity<float>(), 0, 0, 0};
      if (first + c < all.end) {
        const auto* from = static_cast<const float2*>(of.statistics) + query_index(of, tile.batch, head, first + c);
        const KeyRange keys = keys_of(of, tile.batch, first + c);
        value = {from->x, from->y, __int_as_float(keys.begin), __int_as_float(keys.end)};
      }
      statistics[at % 2 * kCols + c] = value;
    }
  }

  // to = rows columns^T, 16 rows of this warp.
  __device__ static void multiply(float (&to)[kCols / 8][4], std::uint32_t rows, std::uint32_t cols) {
#pragma unroll
    for (int n = 0; n < kCols / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[n][i] = 0;
    }
    const int matrix = lane() / 8;
    const int row = warp() * 16 + matrix % 2 * 8 + lane() % 8;
    const int col = matrix / 2 * 8 + lane() % 8;
#pragma unroll
    for (int k = 0; k < kWords; k += 2) {
      std::uint32_t a[4];
      load_matrices(a, word_at(rows, row, k + matrix / 2));
#pragma unroll
      for (int n = 0; n < kCols / 8; n += 2) {
        std::uint32_t b[4];
        load_matrices(b, word_at(cols, n * 8 + col, k + matrix % 2));
        E::multiply_add(to[n], a, b[0], b[1]);
        E::multiply_add(to[n + 1], a, b[2], b[3]);
      }
    }
  }

  // to += weights columns.
  __device__ static void add_products(float (&to)[kWidth / 8][4], const float (&weights)[kCols / 8][4],
                                      std::uint32_t cols) {
    const int matrix = lane() / 8;
    const int col = matrix % 2 * 8 + lane() % 8;
#pragma unroll
    for (int k = 0; k < kCols / 8; k += 2) {
      const std::uint32_t a[4] = {E::pair(weights[k][0], weights[k][1]), E::pair(weights[k][2], weights[k][3]),
                                  E::pair(weights[k + 1][0], weights[k + 1][1]),
                                  E::pair(weights[k + 1][2], weights[k + 1][3])};
#pragma unroll
      for (int n = 0; n < kWords; n += 2) {
        std::uint32_t b[4];
        load_matrices_turned(b, word_at(cols, k * 8 + col, n + matrix / 2));
        E::multiply_add(to[n], a, b[0], b[1]);
        E::multiply_add(to[n + 1], a, b[2], b[3]);
      }
    }
  }

  __device__ void step(int at) {
    float scores[kCols / 8][4];
    multiply(scores, rows_at, stage(at));
    if constexpr (!kBackward) {
      take_powers(scores, first_col(at));
      add_products(acc, scores, stage(at) + kColBytes);
    } else {
      take_probabilities(scores, at);
      if constexpr (kHasTwo) add_products(acc2, scores, stage(at) + kColBytes);
      if constexpr (kMode == Mode::kDv) add_products(acc, scores, stage(at) + kColBytes);
      if constexpr (has_score_gradients(kMode)) {
        float grads[kCols / 8][4];
        multiply(grads, rows_at + kRowBytes, stage(at) + kColBytes);
        take_gradients(scores, grads, at);
        add_products(acc, scores, stage(at));
      }
    }
  }

  // Replaces scores by powers, and rescales the results and the sum to a larger maximum.
  __device__ void take_powers(float (&scores)[kCols / 8][4], std::int32_t first) {
    mask_rows(scores, first);
    const float unit = static_cast<float>(of.scale) * kLog2E;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float row_most = most[half];
#pragma unroll
      for (int n = 0; n < kCols / 8; ++n)
        row_most = fmaxf(row_most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      row_most = fmaxf(row_most, __shfl_xor_sync(0xffffffffU, row_most, 1));
      row_most = fmaxf(row_most, __shfl_xor_sync(0xffffffffU, row_most, 2));
      const float base = row_most == -infinity<float>() ? 0 : row_most * unit;  // a row without keys so far
      const float by = power_of_2(most[half] * unit - base);
      most[half] = row_most;
      sum[half] *= by;
#pragma unroll
      for (int n = 0; n < kCols / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[n][i] = power_of_2(scores[n][i] * unit - base);
          sum[half] += scores[n][i];
        }
      }
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        acc[n][2 * half] *= by;
        acc[n][2 * half + 1] *= by;
      }
    }
  }

  // Sets the scores of keys that a query does not attend to to minus infinity; rows are queries.
  __device__ void mask_rows(float (&scores)[kCols / 8][4], std::int32_t first) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (ranges[half].begin <= first && ranges[half].end >= first + kCols) continue;
#pragma unroll
      for (int n = 0; n < kCols / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::int32_t key = first + n * 8 + lane() % 4 * 2 + i;
          if (key < ranges[half].begin || key >= ranges[half].end) scores[n][2 * half + i] = -infinity<float>();
        }
      }
    }
  }

  // Replaces scores by probabilities.
  __device__ void take_probabilities(float (&scores)[kCols / 8][4], int at) const {
    const float unit = static_cast<float>(of.scale) * kLog2E;
    if constexpr (!kKeyRows) mask_rows(scores, first_col(at));
#pragma unroll
    for (int n = 0; n < kCols / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kKeyRows) {
          const float4 query = statistics[at % 2 * kCols + n * 8 + lane() % 4 * 2 + i % 2];
          const std::int32_t key = tile.first + thread_row(i / 2);
          const bool is_one = key >= __float_as_int(query.z) && key < __float_as_int(query.w);
          scores[n][i] = is_one ? power_of_2(scores[n][i] * unit - query.x) : 0;
        } else {
          scores[n][i] = power_of_2(scores[n][i] * unit - logsumexp[i / 2]);
        }
      }
    }
  }

  // Replaces probabilities by the gradients of scores.
  __device__ void take_gradients(float (&scores)[kCols / 8][4], const float (&grads)[kCols / 8][4], int at) const {
#pragma unroll
    for (int n = 0; n < kCols / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float of_query = kKeyRows ? statistics[at % 2 * kCols + n * 8 + lane() % 4 * 2 + i % 2].y : delta[i / 2];
        scores[n][i] *= grads[n][i] - of_query;
      }
    }
  }

  __device__ void store_results() {
    if constexpr (kMode == Mode::kOut) {
      is_invalid = __any_sync(0xffffffffU, is_invalid);
      store_out();
    } else {
      const float scale = static_cast<float>(of.scale);
      for (int half = 0; half < 2; ++half) {
        const int row = thread_row(half);
        if (row >= tile.count) continue;
        const auto key_place = [&](const AttentionTensor& x) { return key_row(of, x, tile, tile.first + row); };
        if constexpr (kMode == Mode::kDq) {
          store_row(of.dq, query_row(of, of.dq, tile, tile.first + row), of.d, acc, half, scale);
        }
        if constexpr (kMode == Mode::kDk || kHasTwo) store_row(of.dk, key_place(of.dk), of.d, acc, half, scale);
        if constexpr (kMode == Mode::kDv) store_row(of.dv, key_place(of.dv), of.e, acc, half, 1);
        if constexpr (kHasTwo) store_row(of.dv, key_place(of.dv), of.e, acc2, half, 1);
      }
    }
  }

  template <int kCount>
  __device__ static void store_row(const AttentionTensor& to, std::int64_t place, int width,
                                   const float (&from)[kCount][4], int half, float by) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      if (n * 8 >= width) break;
      auto* at = reinterpret_cast<std::uint32_t*>(to.data + (place + n * 8 + lane() % 4 * 2) * 2);
      *at = E::pair(from[n][2 * half] * by, from[n][2 * half + 1] * by);
    }
  }

  __device__ void store_out() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(0xffffffffU, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffffU, sum[half], 2);
      if (is_invalid || ranges[half].begin < 0) sum[half] = infinity<float>() - infinity<float>();  // nan
      const int row = thread_row(half);
      if (row >= tile.count) continue;
      most[half] *= static_cast<float>(of.scale);
      if (of.pages.splits > 1) {
        store_part(tile.first + row, half);
        continue;
      }
      const float by = sum[half] == 0 ? 0 : 1 / sum[half];
      store_row(of.out, query_row(of, of.out, tile, tile.first + row), of.e, acc, half, by);
      if (of.logsumexp.data != nullptr && lane() % 4 == 0) {
        const float value = sum[half] == 0 ? -infinity<float>() : most[half] + logf(sum[half]);
        reinterpret_cast<float*>(of.logsumexp.data)[query_row(of, of.logsumexp, tile, tile.first + row)] = value;
      }
    }
  }

  __device__ void store_part(std::int32_t row, int half) const {
    const std::int64_t at = part_index(of, tile, row);
    if (lane() % 4 == 0) static_cast<float2*>(of.pages.sums)[at] = {most[half], sum[half]};
    float* to = static_cast<float*>(of.pages.parts) + at * of.e + lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kWords; ++n) {
      if (n * 8 >= of.e) break;
      *reinterpret_cast<float2*>(to + n * 8) = {acc[n][2 * half], acc[n][2 * half + 1]};
    }
  }

  const AttentionArgs& of;
  AttentionTile tile;
  KeyRange all;  // columns of this tile
  int steps_each, steps;
  std::uint32_t rows_at, cols_at;  // addresses in shared memory
  float4* statistics;
  bool is_invalid = false;
  KeyRange ranges[2];
  float logsumexp[2], delta[2];
  float acc[kWidth / 8][4];
  float acc2[kHasTwo ? kWidth / 8 : 1][4];
  float most[2], sum[2];
};

}  // namespace

#define TESSERA_TENSOR(name, width, mode)                                         \
  extern "C" __global__ void __launch_bounds__(kTensorThreads)                    \
      attention_##name##_bf16_##width(const __grid_constant__ AttentionArgs of) { \
    TensorBlock<Bf16, width, Mode::mode>(of).run();                               \
  }                                                                               \
  extern "C" __global__ void __launch_bounds__(kTensorThreads)                    \
      attention_##name##_f16_##width(const __grid_constant__ AttentionArgs of) {  \
    TensorBlock<F16, width, Mode::mode>(of).run();                                \
  }
TESSERA_TENSOR(out, 64, kOut)
TESSERA_TENSOR(out, 128, kOut)
TESSERA_TENSOR(out, 256, kOut)
TESSERA_TENSOR(dq, 64, kDq)
TESSERA_TENSOR(dq, 128, kDq)
TESSERA_TENSOR(dq, 256, kDq)
TESSERA_TENSOR(dkdv, 64, kDkDv)
TESSERA_TENSOR(dkdv, 128, kDkDv)
TESSERA_TENSOR(dk, 256, kDk)
TESSERA_TENSOR(dv, 256, kDv)

}  // namespace tessera::ops::cuda
