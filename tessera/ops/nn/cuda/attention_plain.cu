// Attention of any dtype, width and stride, and its gradient, in f32 or f64 arithmetic. Each result is a sum over
// tiles:
//
//   out = P v    dq = dS k    dk = dS^T q    dv = P^T grad
//
// A block of 16 x 16 threads owns a tile of rows and a chunk of the columns of one result. It loops over the tiles of
// the other side, computes the weights (P or dS) of both tiles, and adds their product. Blocks with other chunks of the
// same rows compute the same weights. A block adds in a fixed order and shares no result, so that bits do not vary.
#include "tessera/ops/nn/cuda/attention.cuh"

namespace tessera::ops::cuda {
namespace {

using Mode = AttentionMode;

constexpr int kSide = 16;   // of the square of threads
constexpr int kDepth = 16;  // of a step of a product
static_assert(kSide * kSide == kPlainThreads);

__device__ int thread_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ int thread_col() { return static_cast<int>(threadIdx.x) % kSide; }

// Columns of a thread: runs of 16 bytes, next to those of its neighbors.
template <class T, int N>
__device__ int column(int i) {
  constexpr int kRun = N * sizeof(T) < 16 ? N : 16 / static_cast<int>(sizeof(T));
  return i / kRun * kRun * kSide + thread_col() * kRun + i % kRun;
}

// Applies f to a and the values of the threads of a row.
template <class T, class F>
__device__ T of_row(T a, const F& f) {
#pragma unroll
  for (int by = kSide / 2; by > 0; by /= 2) a = f(a, __shfl_xor_sync(0xffffffffU, a, by));
  return a;
}

// kR rows and kC columns per thread; a chunk of a result has kN columns per thread.
template <class T, int kR, int kC, int kN, Mode kMode>
class PlainBlock {
 public:
  static constexpr int kRows = kR * kSide;
  static constexpr int kCols = kC * kSide;
  static constexpr int kChunk = kN * kSide;

  __device__ PlainBlock(const AttentionArgs& args, bool is_split) : of(args), has_splits(is_split) {}

  __device__ void run() {
    tile = tile_of<kKeyRows>(of, kRows);
    chunk = static_cast<std::int32_t>(blockIdx.y) * kChunk;
    load_rows();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      most[i] = -infinity<T>();
      sum[i] = 0;
#pragma unroll
      for (int j = 0; j < kN; ++j) acc[i][j] = 0;
    }
    if constexpr (kKeyRows) {
      const KeyRange range = queries_of(of, tile.batch, tile.first, tile.first + tile.count);
      for (std::int32_t head = tile.head; head < tile.head + of.heads / of.kv_heads; ++head) {
        for (std::int32_t first = range.begin; first < range.end; first += kCols) step(head, first, range.end);
      }
    } else {
      KeyRange all = key_range();
      if (has_splits) all = split_of(of, all, kCols);
      for (std::int32_t first = all.begin; first < all.end; first += kCols) step(0, first, all.end);
    }
    store_result();
  }

 private:
  static constexpr bool kKeyRows = has_key_rows(kMode);
  static constexpr int kQueries = kKeyRows ? kCols : kRows;
  static constexpr int kPad = 16 / sizeof(T);
  static constexpr int kRight = kCols > kChunk ? kCols : kChunk;

  struct Shared {
    alignas(16) T left[kDepth][kRows + kPad];
    alignas(16) T right[kDepth][kRight + kPad];
    alignas(16) T weights[kCols][kRows + kPad];
    std::int64_t row[kRows], row2[kRows], col[kCols], col2[kCols];  // offsets of both operands of a side
    KeyRange ranges[kQueries];
    T logsumexp[kQueries], delta[kQueries];
    int is_invalid;
  };
  __device__ static Shared& shared() {
    __shared__ Shared memory;
    return memory;
  }

  // Operands of the scores, of the gradient of P, and of the result.
  __device__ const AttentionTensor& row_x() const { return kKeyRows ? of.k : of.q; }
  __device__ const AttentionTensor& col_x() const { return kKeyRows ? of.q : of.k; }
  __device__ const AttentionTensor& row_x2() const { return kKeyRows ? of.v : of.grad; }
  __device__ const AttentionTensor& col_x2() const { return kKeyRows ? of.grad : of.v; }
  static constexpr bool kAddsSecond = kMode == Mode::kOut || kMode == Mode::kDv;  // the result sums rows of col_x2

  __device__ void load_query(int at, bool is_one, std::int32_t head, std::int32_t query) {
    Shared& s = shared();
    s.ranges[at] = is_one ? keys_of(of, tile.batch, query) : KeyRange{0, 0};
    if constexpr (kMode != Mode::kOut) {
      const T* statistics = static_cast<const T*>(of.statistics) + 2 * query_index(of, tile.batch, head, query);
      s.logsumexp[at] = is_one ? statistics[0] : infinity<T>();
      s.delta[at] = is_one ? statistics[1] : T(0);
    }
  }

  __device__ void load_rows() {
    Shared& s = shared();
    if (threadIdx.x == 0) s.is_invalid = has_pages(of) && lacks_columns(of, tile.batch) ? 1 : 0;
    for (int r = static_cast<int>(threadIdx.x); r < kRows; r += kPlainThreads) {
      const bool is_one = r < tile.count;
      const std::int32_t row = tile.first + r;
      if constexpr (kKeyRows) {
        s.row[r] = is_one ? key_row(of, of.k, tile, row) : kNoRow;
        s.row2[r] = is_one ? key_row(of, of.v, tile, row) : kNoRow;
      } else {
        s.row[r] = is_one ? query_row(of, of.q, tile, row) : kNoRow;
        s.row2[r] = is_one && kMode != Mode::kOut ? query_row(of, of.grad, tile, row) : kNoRow;
        load_query(r, is_one, tile.head, has_pages(of) ? row % of.queries : row);
      }
    }
  }

  // Returns the keys from the first to the last that rows of the tile attend to.
  __device__ KeyRange key_range() const {
    const Shared& s = shared();
    KeyRange all = s.ranges[0];
    for (int r = 1; r < tile.count; ++r) {
      all.begin = min(all.begin, s.ranges[r].begin);
      all.end = max(all.end, s.ranges[r].end);
    }
    all.begin = max(all.begin, 0);
    return {all.begin, max(all.begin, all.end)};
  }

  __device__ void load_cols(std::int32_t head, std::int32_t first, std::int32_t end) {
    Shared& s = shared();
    for (int c = static_cast<int>(threadIdx.x); c < kCols; c += kPlainThreads) {
      const std::int32_t at = first + c;
      const bool is_one = at < end;
      if constexpr (kKeyRows) {
        s.col[c] = is_one ? tile.batch * of.q.batch + head * of.q.head + at * of.q.row : kNoRow;
        s.col2[c] = is_one ? tile.batch * of.grad.batch + head * of.grad.head + at * of.grad.row : kNoRow;
        load_query(c, is_one, head, at);
      } else {
        s.col[c] = is_one ? key_row(of, of.k, tile, at) : kNoRow;
        s.col2[c] = is_one ? key_row(of, of.v, tile, at) : kNoRow;
        if (is_one && s.col[c] == kNoRow) s.is_invalid = 1;
      }
    }
  }

  // Loads kDepth columns of rows, so that a row becomes a column of `to`.
  template <int kCount, int kStep>
  __device__ static void load_turned(T (&to)[kDepth][kStep], const AttentionTensor& x, const std::int64_t* rows, int k0,
                                     int width) {
#pragma unroll
    for (int i = 0; i < kCount * kDepth / static_cast<int>(kPlainThreads); ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kPlainThreads);
      const int k = k0 + at % kDepth;
      const std::int64_t row = rows[at / kDepth];
      to[at % kDepth][at / kDepth] = row != kNoRow && k < width ? load<T>(x.data, x.dtype, row + k * x.col) : T(0);
    }
  }

  template <int kCount, int kLeft>
  __device__ static void add_products(T (&to)[kR][kCount], const T (*left)[kLeft], const T (*right)[kRight + kPad]) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      T a[kR];
      T b[kCount];
#pragma unroll
      for (int i = 0; i < kR; ++i) a[i] = left[k][thread_row() * kR + i];
#pragma unroll
      for (int j = 0; j < kCount; ++j) b[j] = right[k][column<T, kCount>(j)];
#pragma unroll
      for (int i = 0; i < kR; ++i) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) to[i][j] += a[i] * b[j];
      }
    }
  }

  __device__ void multiply(T (&to)[kR][kC], const AttentionTensor& rows, const std::int64_t* row_at,
                           const AttentionTensor& cols, const std::int64_t* col_at, int width) {
    Shared& s = shared();
#pragma unroll
    for (int i = 0; i < kR; ++i) {
#pragma unroll
      for (int j = 0; j < kC; ++j) to[i][j] = 0;
    }
    for (int k0 = 0; k0 < width; k0 += kDepth) {
      load_turned<kRows>(s.left, rows, row_at, k0, width);
      load_turned<kCols>(s.right, cols, col_at, k0, width);
      __syncthreads();
      add_products(to, s.left, s.right);
      __syncthreads();
    }
  }

  // Replaces scores by powers, and rescales the result and the sum to a larger maximum.
  __device__ void take_powers(T (&scores)[kR][kC], std::int32_t first) {
    const Shared& s = shared();
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      const KeyRange keys = s.ranges[thread_row() * kR + i];
      T row_most = most[i];
#pragma unroll
      for (int j = 0; j < kC; ++j) {
        const std::int32_t key = first + column<T, kC>(j);
        const bool is_one = key >= keys.begin && key < keys.end;
        scores[i][j] = is_one ? scores[i][j] * static_cast<T>(of.scale) : -infinity<T>();
        row_most = scores[i][j] > row_most ? scores[i][j] : row_most;
      }
      row_most = of_row(row_most, [](T a, T b) { return a > b ? a : b; });
      const T base = row_most == -infinity<T>() ? T(0) : row_most;  // a row without keys so far
      const T by = exp_of(most[i] - base);
      most[i] = row_most;
      sum[i] *= by;
#pragma unroll
      for (int j = 0; j < kC; ++j) {
        scores[i][j] = exp_of(scores[i][j] - base);
        sum[i] += scores[i][j];
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) acc[i][j] *= by;
    }
  }

  // Replaces scores by probabilities or their gradients times the scale.
  __device__ void take_gradients(T (&scores)[kR][kC], const T (&grads)[kR][kC], std::int32_t first) {
    const Shared& s = shared();
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      const int r = thread_row() * kR + i;
#pragma unroll
      for (int j = 0; j < kC; ++j) {
        const int c = column<T, kC>(j);
        const int query = kKeyRows ? c : r;
        const std::int32_t key = kKeyRows ? tile.first + r : first + c;
        const KeyRange keys = s.ranges[query];
        const bool is_one = key >= keys.begin && key < keys.end;
        T p = is_one ? exp_of(scores[i][j] * static_cast<T>(of.scale) - s.logsumexp[query]) : T(0);
        if constexpr (has_score_gradients(kMode)) {
          if (is_one) p *= (grads[i][j] - s.delta[query]) * static_cast<T>(of.scale);
        }
        scores[i][j] = p;
      }
    }
  }

  __device__ void step(std::int32_t head, std::int32_t first, std::int32_t end) {
    Shared& s = shared();
    load_cols(head, first, end);
    __syncthreads();
    T weights[kR][kC];
    multiply(weights, row_x(), s.row, col_x(), s.col, of.d);
    if constexpr (kMode == Mode::kOut) {
      take_powers(weights, first);
    } else {
      T grads[kR][kC];
      if constexpr (has_score_gradients(kMode)) multiply(grads, row_x2(), s.row2, col_x2(), s.col2, of.e);
      take_gradients(weights, grads, first);
    }
#pragma unroll
    for (int j = 0; j < kC; ++j) {
#pragma unroll
      for (int i = 0; i < kR; ++i) s.weights[column<T, kC>(j)][thread_row() * kR + i] = weights[i][j];
    }
    add_result();
  }

  // Adds the product of the weights and rows of the columns' operand to the chunk.
  __device__ void add_result() {
    Shared& s = shared();
    const AttentionTensor& x = kAddsSecond ? col_x2() : col_x();
    const std::int64_t* rows = kAddsSecond ? s.col2 : s.col;
    const std::int32_t width = kAddsSecond ? of.e : of.d;
    for (int c0 = 0; c0 < kCols; c0 += kDepth) {
#pragma unroll
      for (int i = 0; i < kDepth * kChunk / static_cast<int>(kPlainThreads); ++i) {
        const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kPlainThreads);
        const std::int32_t n = chunk + at % kChunk;
        const std::int64_t row = rows[c0 + at / kChunk];
        s.right[at / kChunk][at % kChunk] =
            row != kNoRow && n < width ? load<T>(x.data, x.dtype, row + n * x.col) : T(0);
      }
      __syncthreads();
      add_products(acc, &s.weights[c0], s.right);
      __syncthreads();
    }
  }

  __device__ const AttentionTensor& result() const {
    if constexpr (kMode == Mode::kOut) return of.out;
    if constexpr (kMode == Mode::kDq) return of.dq;
    return kMode == Mode::kDk ? of.dk : of.dv;
  }

  __device__ void store_result() {
    const Shared& s = shared();
    const std::int32_t width = kAddsSecond ? of.e : of.d;
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      const int r = thread_row() * kR + i;
      T by = 1;
      if constexpr (kMode == Mode::kOut) {
        sum[i] = of_row(sum[i], [](T a, T b) { return a + b; });
        if (s.is_invalid != 0 || s.ranges[r].begin < 0) sum[i] = -infinity<T>() + infinity<T>();  // nan
        by = sum[i] == T(0) ? T(0) : T(1) / sum[i];
      }
      if (r >= tile.count) continue;
      if (has_splits) {
        store_part(i, tile.first + r);
        continue;
      }
      const AttentionTensor& to = result();
      const std::int64_t place =
          kKeyRows ? key_row(of, to, tile, tile.first + r) : query_row(of, to, tile, tile.first + r);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const std::int32_t n = chunk + column<T, kN>(j);
        if (n < width) store(acc[i][j] * by, to.data, to.dtype, place + n * to.col);
      }
      if constexpr (kMode == Mode::kOut) {
        if (chunk == 0 && thread_col() == 0 && of.logsumexp.data != nullptr) {
          const T value = sum[i] == T(0) ? -infinity<T>() : most[i] + log_of(sum[i]);
          store(value, of.logsumexp.data, of.logsumexp.dtype, query_row(of, of.logsumexp, tile, tile.first + r));
        }
      }
    }
  }

  __device__ void store_part(int i, std::int32_t row) const {
    const std::int64_t at = part_index(of, tile, row);
    T* sums = static_cast<T*>(of.pages.sums) + 2 * at;
    if (chunk == 0 && thread_col() == 0) {
      sums[0] = most[i];
      sums[1] = sum[i];
    }
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const std::int32_t n = chunk + column<T, kN>(j);
      if (n < of.e) static_cast<T*>(of.pages.parts)[at * of.e + n] = acc[i][j];
    }
  }

  const AttentionArgs& of;
  const bool has_splits;
  AttentionTile tile;
  std::int32_t chunk;
  T acc[kR][kN];
  T most[kR], sum[kR];
};

// The sum of a row of grad and out, and the logsumexp in the unit of the kernels: one warp per query.
template <class T>
__device__ void query_statistics(const AttentionArgs& of, double unit) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (index >= static_cast<std::int64_t>(of.batch) * of.heads * of.queries) return;
  const std::int64_t query = index % of.queries;
  const std::int64_t head = index / of.queries % of.heads;
  const std::int64_t batch = index / of.queries / of.heads;
  const auto place = [&](const AttentionTensor& x) { return batch * x.batch + head * x.head + query * x.row; };
  T sum = 0;
  for (std::int32_t n = static_cast<std::int32_t>(threadIdx.x % 32); n < of.e; n += 32) {
    sum += load<T>(of.grad.data, of.grad.dtype, place(of.grad) + n * of.grad.col) *
           load<T>(of.out.data, of.out.dtype, place(of.out) + n * of.out.col);
  }
#pragma unroll
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
  if (threadIdx.x % 32 != 0) return;
  const AttentionTensor& second = of.grad_logsumexp;
  if (second.data != nullptr) sum -= load<T>(second.data, second.dtype, place(second));
  const T value = load<T>(of.logsumexp.data, of.logsumexp.dtype, place(of.logsumexp));
  T* to = static_cast<T*>(of.statistics) + 2 * index;
  to[0] = value == -infinity<T>() ? infinity<T>() : value * static_cast<T>(unit);
  to[1] = sum;
}

__device__ std::int64_t offset_at(const void* from, DType dtype, std::int64_t i) {
  return dtype == DType::kI64 ? static_cast<const std::int64_t*>(from)[i] : static_cast<const std::int32_t*>(from)[i];
}

// Adds the parts of the splits of a row: one thread per element of the result.
template <class T>
__device__ void add_parts(const AttentionArgs& of) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t rows = static_cast<std::int64_t>(of.batch) * of.groups * of.rows;
  if (index >= rows * of.e) return;
  const std::int64_t row = index / of.e;
  const std::int64_t n = index % of.e;
  const T* sums = static_cast<const T*>(of.pages.sums) + 2 * row * of.pages.splits;
  const T* parts = static_cast<const T*>(of.pages.parts) + row * of.pages.splits * of.e + n;
  T most = -infinity<T>();
  for (int i = 0; i < of.pages.splits; ++i) most = sums[2 * i] > most ? sums[2 * i] : most;
  if (most == -infinity<T>()) most = 0;
  T sum = 0;
  T value = 0;
  for (int i = 0; i < of.pages.splits; ++i) {
    const T by = exp_of(sums[2 * i] - most);
    sum += sums[2 * i + 1] * by;
    value += parts[i * static_cast<std::int64_t>(of.e)] * by;
  }
  const std::int64_t group = row / of.rows;
  const std::int64_t in_group = row % of.rows;
  const std::int64_t head = group % of.groups * (of.heads / of.groups) + in_group / of.queries;
  const std::int64_t place =
      group / of.groups * of.out.batch + head * of.out.head + in_group % of.queries * of.out.row + n * of.out.col;
  store(sum == T(0) ? T(0) : value / sum, of.out.data, of.out.dtype, place);
}

}  // namespace

#define TESSERA_ATTENTION const __grid_constant__ AttentionArgs of
#define TESSERA_PLAIN(name, T, rows, cols, chunk, mode, has_splits)                                       \
  extern "C" __global__ void __launch_bounds__(kPlainThreads) attention_plain_##name(TESSERA_ATTENTION) { \
    PlainBlock<T, rows, cols, chunk, Mode::mode>(of, has_splits).run();                                   \
  }
TESSERA_PLAIN(out_f32, float, 4, 4, 8, kOut, false)
TESSERA_PLAIN(dq_f32, float, 4, 4, 8, kDq, false)
TESSERA_PLAIN(dk_f32, float, 4, 4, 8, kDk, false)
TESSERA_PLAIN(dv_f32, float, 4, 4, 8, kDv, false)
TESSERA_PLAIN(pages_f32, float, 1, 4, 8, kOut, of.pages.splits > 1)
TESSERA_PLAIN(out_f64, double, 2, 2, 4, kOut, false)
TESSERA_PLAIN(dq_f64, double, 2, 2, 4, kDq, false)
TESSERA_PLAIN(dk_f64, double, 2, 2, 4, kDk, false)
TESSERA_PLAIN(dv_f64, double, 2, 2, 4, kDv, false)
TESSERA_PLAIN(pages_f64, double, 1, 2, 4, kOut, of.pages.splits > 1)

extern "C" __global__ void __launch_bounds__(kPlainThreads) attention_statistics_f32(TESSERA_ATTENTION, double unit) {
  query_statistics<float>(of, unit);
}
extern "C" __global__ void __launch_bounds__(kPlainThreads) attention_statistics_f64(TESSERA_ATTENTION, double unit) {
  query_statistics<double>(of, unit);
}
extern "C" __global__ void __launch_bounds__(kPlainThreads) attention_parts_f32(TESSERA_ATTENTION) {
  add_parts<float>(of);
}
extern "C" __global__ void __launch_bounds__(kPlainThreads) attention_parts_f64(TESSERA_ATTENTION) {
  add_parts<double>(of);
}

// Writes the keys of each query of packed sequences: one thread per query.
extern "C" __global__ void __launch_bounds__(kPlainThreads) attention_ranges(TESSERA_ATTENTION) {
  const auto query = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (query >= of.queries) return;
  const AttentionOffsets& from = of.offsets;
  const auto q_at = [&](std::int32_t i) { return offset_at(from.q, from.q_dtype, i * from.q_step); };
  const auto k_at = [&](std::int32_t i) { return offset_at(from.k, from.k_dtype, i * from.k_step); };
  std::int32_t low = 0;  // the last sequence that starts at or before the query
  std::int32_t high = from.sequences;
  while (low + 1 < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (q_at(middle) <= query) {
      low = middle;
    } else {
      high = middle;
    }
  }
  of.ranges[query] = {-1, 0};
  if (from.sequences == 0 || q_at(0) != 0 || k_at(0) != 0 || q_at(from.sequences) != of.queries ||
      k_at(from.sequences) != of.keys) {
    return;
  }
  const std::int64_t q0 = q_at(low);
  const std::int64_t q1 = q_at(low + 1);
  const std::int64_t k0 = k_at(low);
  const std::int64_t keys = k_at(low + 1) - k0;
  if (query < q0 || query >= q1 || k0 < 0 || keys < 0 || k0 + keys > of.keys) return;
  const std::int64_t place = query - q0 + (of.is_bottom_right ? keys - (q1 - q0) : 0);
  const std::int64_t end = of.right < 0 ? keys : max(std::int64_t{0}, min(place + of.right + 1, keys));
  const std::int64_t begin = of.left < 0 ? 0 : max(std::int64_t{0}, min(place - of.left, end));
  of.ranges[query] = {static_cast<std::int32_t>(k0 + begin), static_cast<std::int32_t>(k0 + end)};
}

}  // namespace tessera::ops::cuda
