// Tests casts between all dtypes, copies of any strides, and copies between devices.
#include "tessera/ops/pointwise/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;
using Values = std::vector<double>;

TEST(Convert, CastsBetweenAllDTypes) {
  const Array small(Shape({2, 3}), Values{0, 1, 0, 1, 1, 0});
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      if (is_complex(from) || is_complex(to)) continue;
      for (const bool strided : {false, true}) {
        const Tensor x = cast(to_tensor(small, from, strided), to);
        EXPECT_EQ(x.dtype(), to);
        EXPECT_EQ(to_array(x).values, small.values) << to_string(from) << " to " << to_string(to);
      }
    }
  }
}

TEST(Convert, CastsSaturateWrapAndRoundOnce) {
  const Tensor x = to_tensor(Array(Shape({5}), Values{1e10, -1e10, 2.9, -2.9, NAN}), DType::kF64);
  EXPECT_EQ(to_array(cast(x, DType::kI8)).values, (Values{127, -128, 2, -2, 0}));
  EXPECT_EQ(to_array(cast(to_tensor(Array(Shape({1}), 300.0), DType::kI32), DType::kU8)).values, Values{44});
  // 2^40 * 257 + 1 is just above the midpoint of two bf16 values.
  const Tensor whole = full({1}, (std::int64_t{257} << 40) + 1, {.dtype = DType::kI64});
  EXPECT_EQ(to_array(cast(whole, DType::kBF16)).values, Values{std::ldexp(258.0, 40)});
  const Tensor unsigned_whole = cast(full({1}, -1, {.dtype = DType::kI64}), DType::kU64);
  EXPECT_EQ(to_array(cast(unsigned_whole, DType::kF32)).values, Values{std::ldexp(1.0, 64)});
}

TEST(Convert, CopiesAnyStrides) {
  const Tensor x = to_tensor(Array(Shape({3, 4, 5}), 0.0), DType::kF32, true);
  copy_(x, arange(60).as_strided({3, 4, 5}, Strides({20, 5, 1}), 0));
  const Tensor turned = x.as_strided({5, 3, 4}, Strides({x.strides()[2], x.strides()[0], x.strides()[1]}), x.offset());
  const Tensor dense = contiguous(turned);
  EXPECT_TRUE(dense.is_contiguous());
  const Values got = to_array(dense).values;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t want = i / 12 + i % 12 * 5;
    EXPECT_EQ(got[i], static_cast<double>(want)) << i;
  }
  EXPECT_TRUE(contiguous(dense).is_same(dense));
  EXPECT_FALSE(clone(dense).is_same(dense));
}

TEST(Convert, CopyBroadcastsAndCounts) {
  const Tensor x = zeros({2, 3}, {.dtype = DType::kI32});
  const auto before = x.version();
  copy_(x, to_tensor(Array(Shape({3}), Values{1.9, 2, 3}), DType::kF32));
  EXPECT_EQ(to_array(x).values, (Values{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(x.version(), before + 1);
  expect_error<InvalidArgument>([&] { copy_(x, zeros({4})); }, {"copy_", "source must broadcast to [2, 3]"});
}

TEST(Convert, GoesToAnotherDeviceBehindTheWorkOnBoth) {
  for (const auto mode : {device::host::Mode::kInline, device::host::Mode::kThreaded}) {
    const Device there = device::host::make_host_device({.mode = mode, .name = "there"});
    const Device stream_owner = device::host::make_host_device({.mode = device::host::Mode::kThreaded, .name = "here"});
    const Tensor x = full({1000}, 1, {.device = stream_owner});
    for (int i = 0; i < 20; ++i) add_(x, 1);
    const Tensor turned = x.as_strided({20, 50}, Strides({1, 20}), 0);
    const Tensor y = to(turned, there);
    fill_(x, 0);  // after the copy
    mul_(y, 2);
    EXPECT_TRUE(y.device() == there);
    EXPECT_EQ(to_array(y).values, Values(1000, 42));
    EXPECT_TRUE(to(y, there).is_same(y));
    const Tensor z = zeros({20, 50}, {.dtype = DType::kI32, .device = stream_owner});
    copy_(z.as_strided({50, 20}, Strides({1, 50}), 0), y.as_strided({50, 20}, Strides({20, 1}), 0));
    EXPECT_EQ(to_array(z).values, Values(1000, 42));
  }
}

}  // namespace
}  // namespace tessera::ops
