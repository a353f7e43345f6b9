// Shapes and strides, including scalars, empty shapes and overflows.
#include "tessera/base/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <unordered_set>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  ADD_FAILURE() << "no InvalidArgument was thrown";
  return {};
}

std::vector<std::int64_t> range(std::int64_t count) {
  std::vector<std::int64_t> dims;
  for (std::int64_t i = 1; i <= count; ++i) dims.push_back(i);
  return dims;
}

TEST(Shape, ScalarHasOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.ndim(), 0);
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(to_string(scalar), "[]");
  EXPECT_EQ(nbytes(scalar, DType::kC128), 16u);
  EXPECT_EQ(contiguous_strides(scalar), Strides{});
  EXPECT_TRUE(is_contiguous(scalar, Strides{}));
  EXPECT_EQ(view_bounds(scalar, Strides{}, 5), (OffsetBounds{5, 5}));
}

TEST(Shape, EmptyHasNone) {
  const Shape empty{2, 0, 3};
  EXPECT_TRUE(empty.is_empty());
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(nbytes(empty, DType::kF64), 0u);
  EXPECT_EQ(contiguous_strides(empty), (Strides{3, 3, 1}));
  EXPECT_TRUE(is_contiguous(empty, Strides{17, -4, 9}));
  EXPECT_EQ(view_bounds(empty, Strides{3, 3, 1}), std::nullopt);
  EXPECT_EQ((Shape{0, kMax, kMax}.numel()), 0);
  EXPECT_EQ((Shape{kMax, kMax, 0}.numel()), 0);
}

TEST(Shape, PrintsComparesAndIndexes) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(to_string(shape), "[2, 3, 5]");
  EXPECT_EQ(detail::concat(shape, Strides{15, 5, 1}), "[2, 3, 5][15, 5, 1]");
  EXPECT_EQ(shape, (Shape{2, 3, 5}));
  EXPECT_NE(shape, (Shape{2, 3}));
  EXPECT_NE(shape, (Shape{2, 3, 6}));
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape.dim(-1), 5);
  EXPECT_EQ(shape.dim(0), 2);
  EXPECT_EQ(message_of([&] { (void)shape.dim(3); }), "shape [2, 3, 5]: dimension must be in [-3, 3), got 3");
  EXPECT_THROW((void)shape.dim(-4), InvalidArgument);
}

TEST(Shape, RefusesNegativeDimensions) {
  EXPECT_EQ(message_of([] { Shape{2, -1}; }), "shape [2, -1]: dimension 1 must be at least 0, got -1");
}

TEST(Shape, KeepsEightDimensionsInPlaceAndMoreElsewhere) {
  for (const std::int64_t count : {8, 9, 20}) {
    const auto dims = range(count);
    const Shape shape{std::span<const std::int64_t>(dims)};
    const auto* first = reinterpret_cast<const char*>(shape.begin());
    const auto* self = reinterpret_cast<const char*>(&shape);
    EXPECT_EQ(first >= self && first < self + sizeof shape, count <= 8) << count;
    Shape copy = shape;
    EXPECT_EQ(copy, shape);
    const Shape moved = std::move(copy);
    EXPECT_EQ(moved, shape);
    copy = moved;
    EXPECT_EQ(copy, shape);
    const Shape& itself = copy;
    copy = itself;
    EXPECT_EQ(copy, shape);
    copy = Shape{1};
    EXPECT_EQ(copy, Shape{1});
    EXPECT_EQ(moved.ndim(), count);
  }
}

TEST(Shape, SizesThatDoNotFitAreErrors) {
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_EQ((Shape{half, half / 4}.numel()), std::int64_t{1} << 62);
  EXPECT_EQ(message_of([&] {
              (void)Shape{half, half / 2}.numel();
            }),
            "shape [4294967296, 2147483648] has more elements than fit 63 bits");
  EXPECT_EQ((Shape{half, half, 0}.numel()), 0);
  EXPECT_EQ((Shape{0, half, half}.numel()), 0);
  EXPECT_EQ(Shape{kMax}.numel(), kMax);
  EXPECT_EQ(nbytes(Shape{kMax}, DType::kI8), static_cast<std::size_t>(kMax));
  EXPECT_EQ(message_of([&] {
              nbytes(Shape{half, half / 4}, DType::kF16);
            }),
            "shape [4294967296, 1073741824] of f16 has more bytes than fit 63 bits");
  EXPECT_THROW(contiguous_strides(Shape{1, half, half}), InvalidArgument);
  EXPECT_NO_THROW(contiguous_strides(Shape{half, half}));  // the size of the first dimension does not enter the strides
}

TEST(Shape, HashesByValueAndLength) {
  std::unordered_set<Shape> shapes = {Shape{}, Shape{0}, Shape{1}, Shape{1, 1}, Shape{2, 3}, Shape{3, 2}};
  EXPECT_EQ(shapes.size(), 6u);
  EXPECT_TRUE(shapes.contains(Shape{3, 2}));
  std::unordered_set<std::size_t> hashes;
  for (const Shape& shape : shapes) hashes.insert(std::hash<Shape>()(shape));
  EXPECT_EQ(hashes.size(), 6u);
  EXPECT_EQ(std::hash<Strides>()(Strides{1, 2}), std::hash<Strides>()(Strides{1, 2}));
}

TEST(Strides, OfADenseTensor) {
  EXPECT_EQ(contiguous_strides(Shape{2, 3, 5}), (Strides{15, 5, 1}));
  EXPECT_EQ(contiguous_strides(Shape{7}), Strides{1});
}

TEST(Strides, ContiguousIgnoresDimensionsOfOne) {
  EXPECT_TRUE(is_contiguous(Shape{2, 3}, Strides{3, 1}));
  EXPECT_FALSE(is_contiguous(Shape{2, 3}, Strides{1, 2}));
  EXPECT_FALSE(is_contiguous(Shape{2, 3}, Strides{6, 2}));
  EXPECT_TRUE(is_contiguous(Shape{2, 1, 3}, Strides{3, 99, 1}));
  EXPECT_TRUE(is_contiguous(Shape{1}, Strides{-7}));
  EXPECT_FALSE(is_contiguous(Shape{4}, Strides{-1}));
  EXPECT_FALSE(is_contiguous(Shape{kMax, kMax}, Strides{0, 0}));
  EXPECT_THROW(is_contiguous(Shape{2}, Strides{}), InvalidArgument);
}

TEST(Broadcast, AlignsAtTheLastDimension) {
  EXPECT_EQ(broadcast(Shape{2, 1, 5}, Shape{3, 1}), (Shape{2, 3, 5}));
  EXPECT_EQ(broadcast(Shape{3, 1}, Shape{2, 1, 5}), (Shape{2, 3, 5}));
  EXPECT_EQ(broadcast(Shape{}, Shape{4}), Shape{4});
  EXPECT_EQ(broadcast(Shape{}, Shape{}), Shape{});
  EXPECT_EQ(broadcast(Shape{1}, Shape{0}), Shape{0});
  EXPECT_EQ(broadcast(Shape{0, 3}, Shape{1, 3}), (Shape{0, 3}));
}

TEST(Broadcast, NamesBothShapesWhenTheyDoNotFit) {
  EXPECT_EQ(message_of([] {
              broadcast(Shape{7, 2, 5}, Shape{3, 5});
            }),
            "shapes [7, 2, 5] and [3, 5] must broadcast, got 2 and 3 in dimension -2; only size 1 broadcasts");
  EXPECT_THROW(broadcast(Shape{0}, Shape{2}), InvalidArgument);
}

TEST(ViewBounds, MatchEveryOffsetOfARandomView) {
  std::mt19937 random(7);
  for (int run = 0; run < 500; ++run) {
    std::vector<std::int64_t> dims(random() % 4);
    std::vector<std::int64_t> steps;
    for (auto& dim : dims) {
      dim = static_cast<std::int64_t>(random() % 4);
      steps.push_back(static_cast<std::int64_t>(random() % 21) - 10);
    }
    const Shape shape{std::span<const std::int64_t>(dims)};
    const Strides strides{std::span<const std::int64_t>(steps)};
    std::optional<OffsetBounds> expected;
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      std::int64_t rest = i;
      std::int64_t at = 3;
      for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d]) at += rest % dims[d] * steps[d];
      if (!expected) expected = OffsetBounds{at, at};
      expected->min = std::min(expected->min, at);
      expected->max = std::max(expected->max, at);
    }
    EXPECT_EQ(view_bounds(shape, strides, 3), expected) << to_string(shape) << to_string(strides);
  }
}

TEST(ViewBounds, RefuseWhatDoesNotFit) {
  EXPECT_THROW(view_bounds(Shape{3}, Strides{kMax}), InvalidArgument);
  EXPECT_THROW(view_bounds(Shape{2}, Strides{kMax}, 1), InvalidArgument);
  EXPECT_EQ(view_bounds(Shape{2}, Strides{kMax}, 0), (OffsetBounds{0, kMax}));
  EXPECT_THROW(view_bounds(Shape{2, 2}, Strides{1}), InvalidArgument);
}

TEST(Checked, SaysWhatDidNotFit) {
  EXPECT_EQ(checked_add(2, 3), 5);
  EXPECT_EQ(checked_mul<std::uint64_t>(1u << 31, 2), std::uint64_t{1} << 32);
  EXPECT_EQ(message_of([] { checked_mul(kMax, std::int64_t{2}, "bytes of a view"); }),
            "bytes of a view: 9223372036854775807 * 2 does not fit 64 bits");
  EXPECT_THROW(checked_add(std::int32_t{2147483647}, std::int32_t{1}), InvalidArgument);
  EXPECT_THROW(checked_add(std::int64_t{-2}, std::numeric_limits<std::int64_t>::min()), InvalidArgument);
}

}  // namespace
}  // namespace tessera
