#include "tessera/ops/matrix/detail/gemm.h"

#include <algorithm>
#include <climits>
#include <complex>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "tessera/base/rank.h"
#include "tessera/ops/matrix/detail/bf16_panel.h"
#include "tessera/ops/matrix/detail/bf16_product.h"
#include "tessera/ops/matrix/detail/product_library.h"
#include "tessera/ops/matrix/detail/thin_product.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {
namespace {

// Packed operands are split into tiles of at most this size. A smaller product with little work is one call.
constexpr std::int64_t kTileRows = 512;
constexpr std::int64_t kTileCols = 1024;
constexpr std::int64_t kMinTileWork = std::int64_t{1} << 21;  // multiplications
// Extent of k that is packed at a time. Panels then fit into a second-level cache of 1 MiB.
constexpr std::int64_t kPackedDepth = 384;
// Minimum work of a thread, in multiplications.
constexpr std::int64_t kPieceWork = std::int64_t{1} << 20;
// Elements of the right operand in a tile of a thin product, whose time is that of reading them.
constexpr std::int64_t kThinTile = std::int64_t{1} << 16;

// An operand as rows of the panel that a product reads: rows are i of a, j of b (so b's panel is transposed).
struct Side {
  std::byte* data;
  std::int64_t row;    // step of i or j
  std::int64_t depth;  // step of k
  std::int64_t rows;   // number of rows
  DType dtype;
  std::int64_t GemmLoop::*loop_step;

  [[nodiscard]] std::byte* at(std::int64_t offset) const {
    return data + offset * static_cast<std::int64_t>(itemsize(dtype));
  }
};

// Cost of packing one element of an operand for a tile, in multiplications that the library could do instead (fitted to
// measurements on an AMD EPYC with AVX-512). Packing is slow if neighbours in memory are neighbours along k.
constexpr double kCopyCost = 3;
constexpr double kLeftAlongDepthCost = 55;
constexpr double kRightAlongDepthCost = 35;

// Cores of this process, divided evenly between the ranks of the machine; TESSERA_THREADS does not change it.
std::int64_t cores() {
  static const std::int64_t kCores = std::thread::hardware_concurrency();
  return std::clamp<std::int64_t>(kCores / std::max(current_place().local_world_size, 1), 2, 64);
}

// The library's kernels compute that many rows and columns at a time.
constexpr std::int64_t kRowsStep = 8;
constexpr std::int64_t kColsStep = 48;

std::int64_t pieces(std::int64_t of, std::int64_t each) { return std::max<std::int64_t>((of + each - 1) / each, 1); }
std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

bool fits_product(std::int64_t stride, std::int64_t least) {
  return stride >= std::max<std::int64_t>(least, 1) && stride <= INT_MAX;
}

// Memory of a packed operand. Its values are not initialized: clearing them took as long as packing half of them.
template <class T>
class Panel {
 public:
  // Returns room for `count` values; earlier ones are lost.
  T* room(std::int64_t count) {
    if (count > size_) {
      data_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
      size_ = count;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<T[]> data_;
  std::int64_t size_ = 0;
};

// The output as a grid of tiles.
struct Tiles {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t height = 0;  // of a tile
  std::int64_t width = 0;
};

template <class T>
struct Job {
  explicit Job(const Gemm& of) : gemm(of) {
    normalize();
    a = {gemm.a.data, gemm.a.row, gemm.a.col, gemm.sizes.m, gemm.a.dtype, &GemmLoop::a};
    b = {gemm.b.data, gemm.b.col, gemm.b.row, gemm.sizes.n, gemm.b.dtype, &GemmLoop::b};
    is_c_direct = gemm.c.dtype == ::tessera::dtype_of<T>() && gemm.c.col == 1 && fits_product(gemm.c.row, gemm.sizes.n);
    is_a_direct = is_direct(a, ::tessera::dtype_of<T>());
    is_b_direct = is_direct(b, ::tessera::dtype_of<T>());
    is_bf16 = has_bf16_product();
    is_thin = has_thin_product();
    is_thin ? cut_thin() : cut();
  }

  // Chooses even tiles, one for each core of the rank if that costs little. The library packs the left operand once for
  // each column of tiles and the right operand once for each row of tiles.
  void cut() {
    std::int64_t repeats = 1;
    for (const GemmLoop& loop : gemm.loops) repeats *= loop.size;
    const bool is_direct = is_bf16 || (is_a_direct && is_b_direct);
    const std::int64_t min_rows = is_direct ? 1 : pieces(gemm.sizes.m, kTileRows);
    const std::int64_t min_cols = is_direct ? 1 : pieces(gemm.sizes.n, kTileCols);
    const bool is_library = is_direct && !is_bf16;
    const double left_cost = is_library && a.depth == 1 ? kLeftAlongDepthCost : kCopyCost;
    const double right_cost = is_library && b.depth == 1 ? kRightAlongDepthCost : kCopyCost;
    const auto cost = [&](const Tiles& of) {
      return right_cost / static_cast<double>(of.height) + left_cost / static_cast<double>(of.width);
    };
    tiles = tiled(min_rows, min_cols);
    const std::int64_t wanted = std::max(pieces(cores(), repeats), tiles.rows * tiles.cols);
    const double most = cost(tiles) + std::clamp(0.015 * static_cast<double>(cores()), 0.035, 0.12);
    for (std::int64_t rows = min_rows; rows <= wanted; ++rows) {
      for (std::int64_t cols = min_cols; rows * cols <= wanted; ++cols) {
        const Tiles next = tiled(rows, cols);
        const std::int64_t more = next.rows * next.cols - tiles.rows * tiles.cols;
        const bool is_small = next.height * next.width * gemm.sizes.k < kMinTileWork;
        if (is_small || cost(next) > most) break;  // more columns only cost more
        if (more > 0 || (more == 0 && cost(next) < cost(tiles))) tiles = next;
      }
    }
  }
  // Tiles of all rows. They are more than the cores, which may not be equally fast.
  void cut_thin() {
    tiles = tiled(1, pieces(gemm.sizes.n * gemm.sizes.k, kThinTile));
    tiles.height = gemm.sizes.m;
  }
  // Chooses tiles for about this many rows and columns of tiles.
  [[nodiscard]] Tiles tiled(std::int64_t rows, std::int64_t cols) const {
    Tiles of;
    of.height = rounded_up(pieces(gemm.sizes.m, rows), kRowsStep);
    of.width = rounded_up(pieces(gemm.sizes.n, cols), kColsStep);
    of.rows = pieces(gemm.sizes.m, of.height);
    of.cols = pieces(gemm.sizes.n, of.width);
    return of;
  }

  // A column-major result is the row-major result of the transposed product.
  void normalize() {
    if (gemm.sizes.n == 1) gemm.c.col = 1;
    if (gemm.sizes.m == 1) gemm.c.row = std::max<std::int64_t>(gemm.sizes.n, 1);
    if (gemm.c.col == 1 || gemm.c.row != 1) return;
    std::swap(gemm.sizes.m, gemm.sizes.n);
    std::swap(gemm.a, gemm.b);
    std::swap(gemm.a.row, gemm.a.col);
    std::swap(gemm.b.row, gemm.b.col);
    std::swap(gemm.c.row, gemm.c.col);
    for (std::size_t i = 0; i < gemm.loops.size(); ++i) std::swap(gemm.loops[i].a, gemm.loops[i].b);
    for (std::size_t i = 0; i < gemm.k_dims.size(); ++i) std::swap(gemm.k_dims[i].a, gemm.k_dims[i].b);
  }

  // Returns true if the bf16 product of the library can read all operands in place.
  bool has_bf16_product() {
    if constexpr (!std::is_same_v<T, float>) return false;
    const bool is_c_rounded =
        gemm.c.dtype == DType::kBF16 && !gemm.is_added && gemm.c.col == 1 && fits_product(gemm.c.row, gemm.sizes.n);
    return (is_c_direct || is_c_rounded) && gemm.sizes.k > 0 && is_direct(a, DType::kBF16) &&
           is_direct(b, DType::kBF16) && has_fast_bf16();
  }

  // Whether the kernels of thin products compute this one: few rows, and all operands as they lie by rows.
  bool has_thin_product() {
    if constexpr (!std::is_same_v<T, float>) return false;
    if (!is_thin_product(gemm.sizes.m, gemm.sizes.n, gemm.sizes.k) || !gemm.k_dims.empty()) return false;
    if (a.dtype != b.dtype || a.depth != 1 || b.depth != 1) return false;
    if (a.dtype == DType::kF32) return is_c_direct;
    return a.dtype == DType::kBF16 && gemm.c.col == 1 && (is_c_direct || gemm.c.dtype == DType::kBF16);
  }

  // A tile of a thin product.
  template <class E>
  void thin_tile(std::int64_t in_a, std::int64_t in_b, std::int64_t in_c, std::int64_t first_col, std::int64_t n,
                 Panel<T>& c_panel) const {
    const std::int64_t m = gemm.sizes.m;
    const auto item = static_cast<std::int64_t>(itemsize(gemm.c.dtype));
    std::byte* const c_at = gemm.c.data + in_c * item;
    float* const c = is_c_direct ? reinterpret_cast<float*>(c_at) : reinterpret_cast<float*>(c_panel.room(m * n));
    const std::int64_t c_row = is_c_direct ? gemm.c.row : n;
    for (std::int64_t i = 0; i < m && !is_c_direct && gemm.is_added; ++i) {
      load(c + i * n, c_at + i * gemm.c.row * item, gemm.c.dtype, 1, n);
    }
    multiply_thin(ThinProduct<E>{.m = m,
                                 .n = n,
                                 .k = gemm.sizes.k,
                                 .a = reinterpret_cast<const E*>(a.data) + in_a,
                                 .a_stride = a.row,
                                 .b = reinterpret_cast<const E*>(b.data) + in_b + first_col * b.row,
                                 .b_stride = b.row,
                                 .c = c,
                                 .c_stride = c_row,
                                 .is_added = gemm.is_added});
    for (std::int64_t i = 0; i < m && !is_c_direct; ++i) {
      store(c + i * n, c_at + i * gemm.c.row * item, gemm.c.dtype, 1, n);
    }
  }

  bool is_direct(Side& side, DType dtype) const {
    if (side.dtype != dtype || !gemm.k_dims.empty()) return false;
    const std::int64_t k = gemm.sizes.k;
    if (k == 1 && side.depth != 1) side.depth = 1;
    if (side.rows == 1 && side.depth == 1) side.row = std::max<std::int64_t>(k, 1);
    if (side.rows == 1 && side.depth != 1) side.row = 1;
    return (side.depth == 1 && fits_product(side.row, k)) || (side.row == 1 && fits_product(side.depth, side.rows));
  }

  // Offsets of this index of the loops, in elements.
  void place(std::int64_t index, std::int64_t& in_a, std::int64_t& in_b, std::int64_t& in_c) const {
    for (std::size_t i = gemm.loops.size(); i-- > 0;) {
      const GemmLoop& loop = gemm.loops[i];
      const std::int64_t digit = index % loop.size;
      index /= loop.size;
      in_a += digit * loop.a;
      in_b += digit * loop.b;
      in_c += digit * loop.c;
    }
  }

  // Returns `count` rows from `first` on, k from `from` on, in place.
  template <class E = T>
  ProductOperand<E> in_place(const Side& side, std::int64_t offset, std::int64_t first, std::int64_t from) const {
    const E* at = reinterpret_cast<const E*>(side.data) + offset + first * side.row + from * side.depth;
    const bool by_rows = side.depth == 1 && fits_product(side.row, gemm.sizes.k);
    return {at, by_rows ? side.row : side.depth, !by_rows};
  }

  // Same, packed into `panel`: row by row, or k by k if the operand is stored that way.
  ProductOperand<T> packed(const Side& side, std::int64_t offset, std::int64_t first, std::int64_t count,
                           std::int64_t from, std::int64_t depth, Panel<T>& panel) const {
    if constexpr (std::is_same_v<T, float>) {
      if (side.dtype == DType::kBF16 && gemm.k_dims.empty() && (side.row == 1 || side.depth == 1)) {
        const std::int64_t stride = panel_stride(count);
        const std::int64_t start = offset + first * side.row + from * side.depth;
        float* const to = panel.room(stride * depth);
        widen_panel(to, {reinterpret_cast<const bf16*>(side.at(start)), side.row, side.depth}, count, depth);
        return {to, stride, true};
      }
    }
    T* const to = panel.room(count * depth);
    const bool by_depth = gemm.k_dims.empty() && std::abs(side.row) < std::abs(side.depth);
    const std::int64_t lines = by_depth ? depth : count;
    for (std::int64_t i = 0; i < lines; ++i) {
      if (by_depth) {
        const std::int64_t start = offset + first * side.row + (from + i) * side.depth;
        load(to + i * count, side.at(start), side.dtype, side.row, count);
      } else if (gemm.k_dims.empty()) {
        const std::int64_t start = offset + (first + i) * side.row + from * side.depth;
        load(to + i * depth, side.at(start), side.dtype, side.depth, depth);
      } else {
        load_folded(side, offset + (first + i) * side.row, from, depth, to + i * depth);
      }
    }
    return {to, by_depth ? count : depth, by_depth};
  }

  // Copies one row along k if k has several dimensions: runs of the innermost one.
  void load_folded(const Side& side, std::int64_t offset, std::int64_t from, std::int64_t depth, T* to) const {
    const std::size_t last = gemm.k_dims.size() - 1;
    const std::int64_t run = gemm.k_dims[last].size;
    for (std::int64_t at = from; at < from + depth;) {
      std::int64_t start = offset + (at % run) * (gemm.k_dims[last].*side.loop_step);
      std::int64_t rest = at / run;
      for (std::size_t i = last; i-- > 0;) {
        start += (rest % gemm.k_dims[i].size) * (gemm.k_dims[i].*side.loop_step);
        rest /= gemm.k_dims[i].size;
      }
      const std::int64_t count = std::min(run - at % run, from + depth - at);
      load(to + (at - from), side.at(start), side.dtype, gemm.k_dims[last].*side.loop_step, count);
      at += count;
    }
  }

  void tile(std::int64_t index, Panel<T>& a_panel, Panel<T>& b_panel, Panel<T>& c_panel) const {
    const std::int64_t first_col = index % tiles.cols * tiles.width;
    const std::int64_t first_row = index / tiles.cols % tiles.rows * tiles.height;
    const std::int64_t m = std::min(tiles.height, gemm.sizes.m - first_row);
    const std::int64_t n = std::min(tiles.width, gemm.sizes.n - first_col);
    std::int64_t in_a = 0;
    std::int64_t in_b = 0;
    std::int64_t in_c = 0;
    place(index / (tiles.cols * tiles.rows), in_a, in_b, in_c);
    in_c += first_row * gemm.c.row + first_col * gemm.c.col;
    if (is_thin) {
      return a.dtype == DType::kBF16 ? thin_tile<bf16>(in_a, in_b, in_c, first_col, n, c_panel)
                                     : thin_tile<float>(in_a, in_b, in_c, first_col, n, c_panel);
    }
    if (is_bf16) {
      ProductOperand<bf16> right = in_place<bf16>(b, in_b, first_col, 0);
      right.is_transposed = !right.is_transposed;
      multiply_bf16({m, n, gemm.sizes.k}, in_place<bf16>(a, in_a, first_row, 0), right, gemm.is_added, gemm.c.dtype,
                    gemm.c.data + in_c * static_cast<std::int64_t>(itemsize(gemm.c.dtype)), gemm.c.row);
      return;
    }
    T* c = is_c_direct ? reinterpret_cast<T*>(gemm.c.data) + in_c : c_panel.room(m * n);
    const auto c_item = static_cast<std::int64_t>(itemsize(gemm.c.dtype));
    const auto c_line = [&](std::int64_t i) { return gemm.c.data + (in_c + i * gemm.c.row) * c_item; };
    if (!is_c_direct && gemm.is_added) {
      for (std::int64_t i = 0; i < m; ++i) load(c + i * n, c_line(i), gemm.c.dtype, gemm.c.col, n);
    }
    const std::int64_t c_row = is_c_direct ? gemm.c.row : n;
    const std::int64_t k = gemm.sizes.k;
    const std::int64_t step = is_a_direct && is_b_direct ? k : std::min(k, kPackedDepth);
    for (std::int64_t from = 0; from < k; from += step) {
      const std::int64_t depth = std::min(step, k - from);
      const ProductOperand<T> left =
          is_a_direct ? in_place(a, in_a, first_row, from) : packed(a, in_a, first_row, m, from, depth, a_panel);
      ProductOperand<T> right =
          is_b_direct ? in_place(b, in_b, first_col, from) : packed(b, in_b, first_col, n, from, depth, b_panel);
      right.is_transposed = !right.is_transposed;  // a side's rows are b's columns
      multiply({m, n, depth}, T(1), left, right, from == 0 && !gemm.is_added ? T(0) : T(1), c, c_row);
    }
    if (k == 0 && !gemm.is_added) {
      for (std::int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_row, n, T(0));
    }
    if (is_c_direct) return;
    for (std::int64_t i = 0; i < m; ++i) store(c + i * n, c_line(i), gemm.c.dtype, gemm.c.col, n);
  }

  void run() const {
    std::int64_t count = tiles.rows * tiles.cols;
    for (const GemmLoop& loop : gemm.loops) count *= loop.size;
    const std::int64_t work = std::min(gemm.sizes.m, tiles.height) * std::min(gemm.sizes.n, tiles.width) *
                              std::max<std::int64_t>(gemm.sizes.k, 1);
    parallel_for(count, is_thin ? 1 : std::max<std::int64_t>(kPieceWork / std::max<std::int64_t>(work, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   Panel<T> a_panel;
                   Panel<T> b_panel;
                   Panel<T> c_panel;
                   for (std::int64_t i = begin; i < end; ++i) tile(i, a_panel, b_panel, c_panel);
                 });
  }

  Gemm gemm;
  Side a;
  Side b;
  bool is_c_direct;
  bool is_a_direct;
  bool is_b_direct;
  bool is_bf16;
  bool is_thin;
  Tiles tiles;
};

}  // namespace

void run_gemm(const Gemm& gemm) {
  switch (compute_of(gemm.c.dtype)) {
    case Compute::kF32: return Job<float>(gemm).run();
    case Compute::kF64: return Job<double>(gemm).run();
    case Compute::kI64: return Job<std::int64_t>(gemm).run();
    case Compute::kC64: return Job<std::complex<float>>(gemm).run();
  }
}

namespace {

// Returns true if a product reads the operand in place. Sets the distance of rows, and whether they are columns.
bool lies_for_product(const GemmOperand& of, std::int64_t rows, std::int64_t cols, std::int32_t& stride,
                      bool& transposed) {
  transposed = of.col != 1;
  const std::int64_t apart = transposed ? of.col : of.row;
  if (of.dtype != DType::kF32 || (transposed && of.row != 1)) return false;
  stride = static_cast<std::int32_t>(apart);
  return fits_product(apart, transposed ? rows : cols);
}

}  // namespace

std::optional<SingleGemm> single_gemm(const GemmSizes& sizes, const GemmOperand& a, const GemmOperand& b,
                                      const GemmOperand& c) {
  SingleGemm single;
  bool is_c_transposed = false;
  if (sizes.m > kTileRows || sizes.n > kTileCols || sizes.k < 1 || sizes.k > INT_MAX ||
      sizes.m * sizes.n * sizes.k >= 2 * kMinTileWork ||
      !lies_for_product(a, sizes.m, sizes.k, single.a_stride, single.is_a_transposed) ||
      !lies_for_product(b, sizes.k, sizes.n, single.b_stride, single.is_b_transposed) ||
      !lies_for_product(c, sizes.m, sizes.n, single.c_stride, is_c_transposed) || is_c_transposed) {
    return std::nullopt;
  }
  single.a = reinterpret_cast<const float*>(a.data);
  single.b = reinterpret_cast<const float*>(b.data);
  single.c = reinterpret_cast<float*>(c.data);
  single.m = static_cast<std::int32_t>(sizes.m);
  single.n = static_cast<std::int32_t>(sizes.n);
  single.k = static_cast<std::int32_t>(sizes.k);
  return single;
}

void SingleGemm::run() const {
  multiply({m, n, k}, 1.0F, {a, a_stride, is_a_transposed}, {b, b_stride, is_b_transposed}, 0.0F, c, c_stride);
}

bool is_matrix_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kBF16:
    case DType::kF16:
    case DType::kC64:
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU8: return true;
    default: return false;
  }
}

}  // namespace tessera::ops::detail
