// Tests created tensors: contiguous, strided and sharded.
#include "tessera/ops/create/create.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using testing::to_array;
using Values = std::vector<double>;

TEST(Create, FillsEveryElementInEveryDType) {
  for (const DType dtype : kAllDTypes) {
    if (is_complex(dtype)) continue;
    EXPECT_EQ(to_array(full({2, 2}, 1, {.dtype = dtype})).values, Values(4, 1)) << to_string(dtype);
    EXPECT_EQ(to_array(zeros({3}, {.dtype = dtype})).values, Values(3, 0));
  }
  EXPECT_EQ(to_array(ones({})).values, Values{1});
  EXPECT_EQ(to_array(full({2}, 0.5)).values, (Values{0.5, 0.5}));
  EXPECT_TRUE(to_array(zeros({0, 4})).values.empty());
  const Tensor c = full({2}, std::complex<double>(1, -2), {.dtype = DType::kC64});
  c.device().synchronize();
  EXPECT_EQ(c.data_as<std::complex<float>>()[1], std::complex<float>(1, -2));
}

TEST(Create, FillsAStridedViewAndNothingElse) {
  const Tensor whole = zeros({4, 6});
  fill_(whole.as_strided({3, 2}, Strides({6, -2}), 4), 7);
  const Values got = to_array(whole).values;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t column = i % 6;
    EXPECT_EQ(got[i], i < 18 && (column == 4 || column == 2) ? 7 : 0) << i;
  }
}

TEST(Create, CountsInIntegersAndInSteps) {
  EXPECT_EQ(to_array(arange(4)).values, (Values{0, 1, 2, 3}));
  EXPECT_EQ(arange(4).dtype(), DType::kI64);
  EXPECT_EQ(to_array(arange(5, -2, -3)).values, (Values{5, 2, -1}));
  EXPECT_EQ(to_array(arange(1.0, 2.0, 0.25, {.dtype = DType::kF32})).values, (Values{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(to_array(arange(2, 5)).values, (Values{2, 3, 4}));
  EXPECT_EQ(arange(2, 5, {.dtype = DType::kF32}).dtype(), DType::kF32);
  EXPECT_EQ(arange(3, 3, 1).numel(), 0);
  EXPECT_EQ(arange(3, 5, -1).numel(), 0);
  EXPECT_EQ(arange_size(0, INT64_MAX, INT64_MAX - 1), 2);
  expect_error<InvalidArgument>([] { (void)arange(0, INT64_MAX, 1); }, {"more bytes than fit 63 bits"});
  expect_error<InvalidArgument>([] { (void)arange(0, 3, 0); }, {"arange", "step must not be 0"});
  expect_error<InvalidArgument>([] { (void)arange(INT64_MIN, 1, 1); }, {"arange", "fewer than 2^63 elements"});
  expect_error<InvalidArgument>([] { (void)arange(0, -HUGE_VAL, 1); }, {"arange", "fewer than 9e15 elements"});
  expect_error<InvalidArgument>([] { (void)arange(0, std::complex<double>(3, 1), 1); }, {"arange", "real numbers"});
}

TEST(Create, EyeHasOnesOnItsDiagonal) {
  EXPECT_EQ(to_array(eye(2, 3)).values, (Values{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(to_array(eye(2, {.dtype = DType::kI32})).values, (Values{1, 0, 0, 1}));
  EXPECT_EQ(to_array(eye(3, 2, {.dtype = DType::kI32})).values, (Values{1, 0, 0, 1, 0, 0}));
  // Without elements, so that a missing check costs no memory. A larger matrix would have ones in wrong columns.
  EXPECT_EQ(eye(0, std::int64_t{1} << 31).numel(), 0);
  expect_error<InvalidArgument>([] { (void)eye(0, (std::int64_t{1} << 31) + 1); },
                                {"eye: shape must have at most 4294967295 rows and 2147483648 columns"});
  expect_error<InvalidArgument>([] { (void)eye(std::int64_t{1} << 32, 0); }, {"eye: shape must have at most"});
}

TEST(Create, PartsAreWhatTheWholeHasThere) {
  const auto map = [](std::int64_t offset, std::int64_t block) {
    return layout::IndexMap{.offset = offset, .block = block, .levels = {}};
  };
  const Device host = Device::get("host");
  const ArangeAttributes counted{2, DType::kI64, 10, 2, {map(3, 2)}};
  EXPECT_EQ(to_array(tensor::call_on(host, tensor::find_op("arange"), counted)).values, (Values{16, 18}));
  const EyeAttributes corner{Shape({2, 2}), DType::kF32, {map(1, 2), map(2, 2)}};
  EXPECT_EQ(to_array(tensor::call_on(host, tensor::find_op("eye"), corner)).values, (Values{0, 0, 1, 0}));
}

TEST(Create, LikeAnotherTensor) {
  const Tensor x = empty({2, 3}, {.dtype = DType::kBF16});
  const Tensor y = ones_like(x);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.dtype(), DType::kBF16);
  EXPECT_EQ(to_array(full_like(x, 2)).values, Values(6, 2));
  const auto before = x.version();
  zero_(x);
  EXPECT_EQ(x.version(), before + 1);
}

}  // namespace
}  // namespace tessera::ops
