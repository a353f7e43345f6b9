// Tests that views share elements and that views which strides cannot express throw. The cases check the results of
// operators that rearrange; this file tests their errors and forms.
#include "tessera/ops/shape/shape.h"

#include <gtest/gtest.h>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;

// Returns 0, 1, 2, ... in this shape.
Tensor counted(const Shape& shape, DType dtype = DType::kF32) {
  Array array(shape);
  for (std::size_t i = 0; i < array.values.size(); ++i) array.values[i] = static_cast<double>(i);
  return to_tensor(array, dtype);
}

std::vector<double> values(const Tensor& tensor) { return to_array(tensor).values; }
using Values = std::vector<double>;

TEST(View, SharesElements) {
  const Tensor x = counted({2, 6});
  const Tensor y = select(permute(view(x, {2, 3, -1}), {2, 1, 0}), 0, 1);
  EXPECT_EQ(y.shape(), Shape({3, 2}));
  EXPECT_EQ(&y.storage(), &x.storage());
  EXPECT_EQ(values(y), (Values{1, 7, 3, 9, 5, 11}));
  y.device().synchronize();
  x.data_as<float>()[7] = 70;
  EXPECT_EQ(values(y), (Values{1, 70, 3, 9, 5, 11}));
  select(y, 0, 0).data_as<float>()[0] = 10;
  EXPECT_EQ(x.data_as<float>()[1], 10);
}

TEST(View, WritingThroughOneIsSeenAndCounted) {
  const Tensor x = counted({4, 5});
  const Tensor middle = slice(x, 1, 1, 3);
  const auto before = x.version();
  tensor::call_out(tensor::find_op("tril"), middle, {middle}, TriangleAttributes{0, {}, {}});
  EXPECT_EQ(values(x), (Values{0, 1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_GT(x.version(), before);
}

TEST(View, ThatStridesCannotExpressNamesThemAndTheWayOut) {
  const Tensor x = transpose(counted({2, 3}), 0, 1);
  expect_error<InvalidArgument>([&] { (void)view(x, {6}); },
                                {"view: shape [3, 2] with strides [1, 3] has no view of shape [6]", "use reshape"});
  EXPECT_EQ(values(reshape(x, {6})), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(flatten(x)), (Values{0, 3, 1, 4, 2, 5}));
}

TEST(View, KeepsStridesWhereDimensionsOnlySplitOrMerge) {
  const Tensor x = slice(counted({4, 6}), 1, 0, 4);  // rows of 4 elements, 6 apart
  const Tensor y = view(x, {2, 2, 2, 1, 2});
  EXPECT_EQ(y.strides()[0], 12);
  EXPECT_EQ(y.strides()[2], 2);
  EXPECT_EQ(values(y), values(x));
  EXPECT_EQ(values(view(slice(counted({2, 2, 6}), 2, 1, 3), {4, 2})), (Values{1, 2, 7, 8, 13, 14, 19, 20}));
  EXPECT_EQ(view(counted({0, 3}), {3, 0}).shape(), Shape({3, 0}));
  EXPECT_EQ(view(transpose(counted({2, 3}), 0, 1), {1, 3, 1, 2, 1}).shape(), Shape({1, 3, 1, 2, 1}));
}

TEST(View, RefusesSizesThatDoNotFit) {
  const Tensor x = counted({2, 3});
  expect_error<InvalidArgument>([&] { (void)view(x, {4}); },
                                {"view: shape [4] must have as many elements as [2, 3] (6), got 4"});
  expect_error<InvalidArgument>([&] { (void)view(x, {-1, -1}); }, {"view: at most one size must be -1"});
  expect_error<InvalidArgument>(
      [&] {
        (void)view(x, {4, -1});
      },
      {"must be a multiple of the other sizes (4) to infer -1, got 6"});
  expect_error<InvalidArgument>([&] { (void)view(x, {-2, 3}); }, {"view: size must be at least 0", "got -2"});
  expect_error<InvalidArgument>(
      [&] {
        (void)unflatten(x, 1, {2, 2});
      },
      {"unflatten: sizes must have the product of dimension 1", "got [2, 2]"});
}

TEST(Views, TakeNegativeDimensionsAndRefuseOthers) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(transpose(x, -1, 0).shape(), Shape({4, 3, 2}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), Shape({2, 3, 4, 1}));
  EXPECT_EQ(flatten(x, -2, -1).shape(), Shape({2, 12}));
  EXPECT_EQ(squeeze(unsqueeze(unsqueeze(x, 0), 2)).shape(), x.shape());
  EXPECT_EQ(squeeze(view(x, {1, 24, 1}), {-1}).shape(), Shape({1, 24}));
  expect_error<InvalidArgument>(
      [&] {
        (void)permute(x, {0, 1, 1});
      },
      {"permute: dimensions must be distinct, got 1 twice"});
  expect_error<InvalidArgument>([&] { (void)permute(x, {0, 1}); }, {"permute: dims must name all 3 dimensions, got 2"});
  expect_error<InvalidArgument>([&] { (void)transpose(x, 0, 3); },
                                {"transpose: dimension must be in [-3, 3), got 3", "f32[2, 3, 4]"});
  expect_error<InvalidArgument>([&] { (void)slice(x, 3, 0); }, {"slice: dimension must be in [-3, 3), got 3"});
  expect_error<InvalidArgument>([&] { (void)flip(x, {1, -2}); }, {"flip: dimensions must be distinct, got 1 twice"});
}

TEST(Views, OfAScalar) {
  const Tensor x = counted({});
  EXPECT_EQ(view(x, {1, 1}).shape(), Shape({1, 1}));
  EXPECT_EQ(flatten(x).shape(), Shape({1}));
  EXPECT_EQ(expand(x, {2, 2}).numel(), 4);
  EXPECT_EQ(values(tril(view(x, {1, 1}), -1)), Values{0});
  expect_error<InvalidArgument>([&] { (void)select(x, 0, 0); }, {"select: x must have at least 1 dimension, got 0"});
}

TEST(Expand, RepeatsWithoutCopyingAndIsNotWrittenInto) {
  const Tensor x = counted({3, 1});
  const Tensor y = expand(x, {2, -1, 4});
  EXPECT_EQ(y.shape(), Shape({2, 3, 4}));
  EXPECT_EQ(y.strides(), Strides({0, 1, 0}));
  expect_error<InvalidArgument>(
      [&] {
        tensor::call_out(tensor::find_op("tril"), y, {y}, TriangleAttributes{0, {}, {}});
      },
      {"share memory"});
  expect_error<InvalidArgument>([&] { (void)expand(counted({3}), {4}); },
                                {"expand: shape must keep every dimension that is not of size 1, got [4] for [3]"});
}

TEST(Slice, ClampsAsPythonDoesAndNarrowDoesNot) {
  const Tensor x = counted({10});
  EXPECT_EQ(values(slice(x, 0, -3)), (Values{7, 8, 9}));
  EXPECT_EQ(values(slice(x, 0, 1, 100, 4)), (Values{1, 5, 9}));
  EXPECT_EQ(slice(x, 0, 8, 2).numel(), 0);
  EXPECT_EQ(values(narrow(x, 0, -2, 2)), (Values{8, 9}));
  expect_error<InvalidArgument>([&] { (void)narrow(x, 0, 8, 3); },
                                {"narrow: range must be in dimension 0 of f32[10]", "got 3 indices from 8"});
  expect_error<InvalidArgument>([&] { (void)slice(x, 0, 0, 5, 0); }, {"slice: step must be at least 1, got 0"});
  expect_error<InvalidArgument>([&] { (void)select(x, 0, 10); },
                                {"select: index must be in [-10, 10) in dimension 0, got 10"});
}

TEST(Split, CutsIntoPiecesOfASizeOrOfSizes) {
  const Tensor x = counted({7, 2});
  const auto by_size = split(x, 3);
  ASSERT_EQ(by_size.size(), 3U);
  EXPECT_EQ(values(by_size[2]), (Values{12, 13}));
  const std::int64_t sizes[] = {2, 0, 5};
  EXPECT_EQ(split(x, sizes)[2].shape(), Shape({5, 2}));
  EXPECT_EQ(chunk(x, 4).size(), 4U);
  EXPECT_EQ(chunk(counted({5, 2}), 4).size(), 3U);  // two rows each
  EXPECT_EQ(split(counted({0, 2}), 3).size(), 1U);
  const std::int64_t wrong[] = {2, 2};
  expect_error<InvalidArgument>([&] { (void)split(x, wrong); }, {"split: sizes must sum to dimension 0", "(7), got 4"});
}

TEST(Cat, RefusesTensorsThatDiffer) {
  const Tensor pair[] = {counted({2, 3}), counted({2, 4})};
  EXPECT_EQ(cat(pair, 1).shape(), Shape({2, 7}));
  expect_error<InvalidArgument>([&] { (void)cat(pair, 0); },
                                {"cat: tensors must have equal sizes except in dimension 0", "and f32[2, 4]"});
  const Tensor mixed[] = {counted({2}), counted({2}, DType::kF64)};
  expect_error<InvalidArgument>([&] { (void)cat(mixed); },
                                {"cat: tensors must have the same dtype", "and f64[2]", "as tensor 1; cast one"});
  const Tensor same[] = {counted({2}), counted({2})};
  EXPECT_EQ(values(stack(same, -1)), (Values{0, 0, 1, 1}));
  EXPECT_EQ(values(cat({same[0], same[1]})), (Values{0, 1, 0, 1}));
  EXPECT_EQ(values(stack({same[0], same[1]})), (Values{0, 1, 0, 1}));
  expect_error<InvalidArgument>(
      [&] {
        (void)stack({counted({2}), counted({2}, DType::kF64)});
      },
      {"stack: tensors must have the same dtype"});
  expect_error<InvalidArgument>([&] { (void)cat({}); }, {"cat: requires at least one tensor"});
}

TEST(Rearranging, WorksInEveryDtype) {
  for (const DType dtype : {DType::kU8, DType::kI16, DType::kF8E4M3, DType::kI64, DType::kBool}) {
    EXPECT_EQ(values(flip(counted({2}, dtype), {0})), (Values{1, 0})) << to_string(dtype);
    EXPECT_EQ(values(pad(counted({2}, dtype), {1, 0}, 1)), (Values{1, 0, 1})) << to_string(dtype);
  }
}

TEST(Triangle, OfAPartIsThePartOfTheTriangle) {
  const Tensor x = counted({6, 6});
  const Tensor whole = triu(x, 1);
  TriangleAttributes part;
  part.diagonal = 1;
  part.rows.offset = 2;
  part.rows.block = 3;
  part.columns.offset = 1;
  part.columns.block = 1;
  part.columns.levels = {{3, 2}};  // columns 1, 3, 5
  const Tensor mine = slice(slice(x, 0, 2, 5), 1, 1, 6, 2);
  const Tensor got = tensor::call(tensor::find_op("triu"), {mine}, part);
  EXPECT_EQ(values(got), values(slice(slice(whole, 0, 2, 5), 1, 1, 6, 2)));
  part.rows.block = 2;
  expect_error<InvalidArgument>([&] { (void)tensor::call(tensor::find_op("triu"), {mine}, part); },
                                {"triu: row map must have 3 rows, got 2"});
}

}  // namespace
}  // namespace tessera::ops
