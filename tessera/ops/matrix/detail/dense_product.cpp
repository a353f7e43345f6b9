#include "tessera/ops/matrix/detail/dense_product.h"

#include <algorithm>
#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/matrix/detail/dense_product.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<double>;

constexpr std::int64_t kTileRows = 6;
constexpr std::int64_t kBlockRows = 96;
constexpr std::int64_t kBlockDepth = 256;
constexpr std::int64_t kBlockCols = 512;

// Element (line, x) of an operand whose lines are rows of a or columns of b.
struct Lines {
  const double* data;
  std::int64_t line;   // step from line to line
  std::int64_t depth;  // step along k
};

// Panels of `width` lines, k by k, with zeros after the last line.
void Pack(const Lines& from, std::int64_t first, std::int64_t lines, std::int64_t start, std::int64_t depth,
          std::int64_t width, double* to) {
  for (std::int64_t panel = 0; panel < lines; panel += width) {
    const std::int64_t count = std::min(width, lines - panel);
    for (std::int64_t x = 0; x < depth; ++x, to += width) {
      const double* at = from.data + (first + panel) * from.line + (start + x) * from.depth;
      for (std::int64_t i = 0; i < count; ++i) to[i] = at[i * from.line];
      std::fill(to + count, to + width, 0.0);
    }
  }
}

// A register tile over one panel of each operand, added to c.
void Tile(std::int64_t depth, double alpha, const double* a, const double* b, std::int64_t rows, std::int64_t cols,
          double* c, std::int64_t c_stride) {
  const Tag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  for (std::int64_t x = 0; x < depth; ++x, a += kTileRows, b += 2 * lanes) {
    const auto left = hn::LoadU(d, b);
    const auto right = hn::LoadU(d, b + lanes);
    const auto row = [&](std::int64_t i, auto& first, auto& second) HWY_ATTR {
      const auto value = hn::Set(d, a[i]);
      first = hn::MulAdd(value, left, first);
      second = hn::MulAdd(value, right, second);
    };
    row(0, c00, c01);
    row(1, c10, c11);
    row(2, c20, c21);
    row(3, c30, c31);
    row(4, c40, c41);
    row(5, c50, c51);
  }
  HWY_ALIGN double made[static_cast<std::size_t>(kTileRows) * 2 * hn::MaxLanes(d)];
  const auto keep = [&](std::int64_t i, auto first, auto second) HWY_ATTR {
    hn::Store(first, d, made + i * 2 * lanes);
    hn::Store(second, d, made + i * 2 * lanes + lanes);
  };
  keep(0, c00, c01);
  keep(1, c10, c11);
  keep(2, c20, c21);
  keep(3, c30, c31);
  keep(4, c40, c41);
  keep(5, c50, c51);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) c[i * c_stride + j] += alpha * made[i * 2 * lanes + j];
  }
}

void Add(const GemmSizes& s, double alpha, const ProductOperand<double>& a, const ProductOperand<double>& b, double* c,
         std::int64_t c_stride) {
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(Tag()));
  const auto up = [](std::int64_t count, std::int64_t step) { return (count + step - 1) / step * step; };
  const Lines left{a.data, a.is_transposed ? 1 : a.stride, a.is_transposed ? a.stride : 1};
  const Lines right{b.data, b.is_transposed ? b.stride : 1, b.is_transposed ? 1 : b.stride};
  const std::int64_t max_depth = std::min(s.k, kBlockDepth);
  const std::int64_t a_room = up(std::min(s.m, kBlockRows), kTileRows) * max_depth;
  const std::int64_t b_room = up(std::min(s.n, kBlockCols), width) * max_depth;
  const auto memory = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(a_room + b_room));
  double* const a_panels = memory.get();
  double* const b_panels = a_panels + a_room;
  for (std::int64_t col = 0; col < s.n; col += kBlockCols) {
    const std::int64_t cols = std::min(kBlockCols, s.n - col);
    for (std::int64_t from = 0; from < s.k; from += kBlockDepth) {
      const std::int64_t depth = std::min(kBlockDepth, s.k - from);
      Pack(right, col, cols, from, depth, width, b_panels);
      for (std::int64_t row = 0; row < s.m; row += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, s.m - row);
        Pack(left, row, rows, from, depth, kTileRows, a_panels);
        for (std::int64_t j = 0; j < cols; j += width) {
          for (std::int64_t i = 0; i < rows; i += kTileRows) {
            Tile(depth, alpha, a_panels + i * depth, b_panels + j * depth, std::min(kTileRows, rows - i),
                 std::min(width, cols - j), c + (row + i) * c_stride + col + j, c_stride);
          }
        }
      }
    }
  }
}

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(Add);

void add_dense_product(const GemmSizes& sizes, double alpha, const ProductOperand<double>& a,
                       const ProductOperand<double>& b, double* c, std::int64_t c_stride) {
  HWY_DYNAMIC_DISPATCH(Add)(sizes, alpha, a, b, c, c_stride);
}

}  // namespace tessera::ops::detail
#endif
