// Tests conversions between dtypes and compute types, one element at a time and in tiles.
#include "tessera/ops/detail/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tessera/base/testing/expect_error.h"

namespace tessera::ops::detail {
namespace {

TEST(Elements, FloatingToIntegerSaturatesAndMakesZeroOfNan) {
  EXPECT_EQ(convert<std::int8_t>(300.0F), 127);
  EXPECT_EQ(convert<std::int8_t>(-300.0), -128);
  EXPECT_EQ(convert<std::uint8_t>(-1.0F), 0);
  EXPECT_EQ(convert<std::uint8_t>(255.9F), 255);
  EXPECT_EQ(convert<std::int64_t>(1e30F), INT64_MAX);
  EXPECT_EQ(convert<std::int64_t>(-1e30), INT64_MIN);
  EXPECT_EQ(convert<std::uint64_t>(1e30), UINT64_MAX);
  EXPECT_EQ(convert<std::int32_t>(std::nanf("")), 0);
  EXPECT_EQ(convert<std::int32_t>(-2.9F), -2);
  EXPECT_EQ(convert<std::int32_t>(INFINITY), INT32_MAX);
  EXPECT_EQ(convert<std::int16_t>(bf16(1e9F)), INT16_MAX);
}

TEST(Elements, IntegersWrapAndBoolIsNotZero) {
  EXPECT_EQ(convert<std::int8_t>(std::int64_t{200}), -56);
  EXPECT_EQ(convert<bool>(0.5F), true);
  EXPECT_EQ(convert<bool>(std::nanf("")), true);
  EXPECT_EQ(convert<bool>(std::complex<float>(0, 2)), true);
  EXPECT_EQ(convert<float>(std::complex<float>(3, 2)), 3.0F);
}

TEST(Elements, IntegersRoundToHalfTypesOnce) {
  // Exceeds a tie of bf16 by less than the precision of float.
  const std::int64_t value = (std::int64_t{257} << 40) + 1;
  EXPECT_EQ(static_cast<float>(convert<bf16>(value)), static_cast<float>(std::int64_t{258} << 40));
}

TEST(Elements, TilesOfEveryDTypeComeBackAsTheyWere) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kC128) continue;
    for (const std::int64_t stride : {1, 3, -2}) {
      std::vector<std::byte> memory(100 * itemsize(dtype));
      std::byte* at = memory.data() + 50 * itemsize(dtype);
      const std::vector<float> values = {0, 1, 0, 1, 1};
      store(values.data(), at, dtype, stride, 5);
      std::vector<float> back(5);
      load(back.data(), at, dtype, stride, 5);
      EXPECT_EQ(back, values) << to_string(dtype);
      std::vector<std::int64_t> whole(5);
      load(whole.data(), at, dtype, stride, 5);
      EXPECT_EQ(whole, (std::vector<std::int64_t>{0, 1, 0, 1, 1})) << to_string(dtype);
    }
  }
}

// Tests every half value and the floats around it, at lengths that end inside a vector.
TEST(Elements, HalfTypesConvertTheSameInVectorsAndAlone) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<std::uint16_t> bits(65536);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    const auto one = [&](std::uint16_t b) {
      return dtype == DType::kF16 ? static_cast<float>(f16::from_bits(b)) : static_cast<float>(bf16::from_bits(b));
    };
    for (std::size_t begin = 0, n = 1; begin < bits.size(); begin += n, n = n % 37 + 1) {
      n = std::min(n, bits.size() - begin);
      std::vector<float> wide(n);
      load(wide.data(), reinterpret_cast<const std::byte*>(&bits[begin]), dtype, 1, static_cast<std::int64_t>(n));
      std::vector<std::uint16_t> back(n);
      for (const float off : {0.0F, 1e-3F, -1e-3F, 4.8828125e-4F, -4.8828125e-4F, 3.90625e-3F}) {
        std::vector<float> near(n);
        for (std::size_t i = 0; i < n; ++i) near[i] = wide[i] * (1 + off);
        store(near.data(), reinterpret_cast<std::byte*>(back.data()), dtype, 1, static_cast<std::int64_t>(n));
        for (std::size_t i = 0; i < n; ++i) {
          const float want = one(bits[begin + i]);
          ASSERT_TRUE(wide[i] == want || (std::isnan(wide[i]) && std::isnan(want)));
          const std::uint16_t rounded = dtype == DType::kF16 ? f16(near[i]).bits() : bf16(near[i]).bits();
          ASSERT_TRUE(back[i] == rounded || (std::isnan(near[i]) && std::isnan(one(back[i])))) << near[i];
        }
      }
    }
  }
}

TEST(Elements, RangesOfStridedViewsCoverAllTheyTouch) {
  const Tensor t = Tensor::allocate({10}, DType::kF32, device::Device::get("host"));
  const Tensor back = t.as_strided({3}, Strides({-2}), 7);
  const ByteRange range = byte_range(back);
  EXPECT_EQ(range.address, t.data() + 12);
  EXPECT_EQ(range.nbytes, 20U);
  EXPECT_EQ(byte_range(t.as_strided({0, 3}, Strides({1, 5}), 0)).nbytes, 0U);
}

TEST(Elements, NothingComputesInC128) {
  expect_error<NotSupported>([] { (void)compute_of(DType::kC128); }, {"c128", "cast to c64"});
}

}  // namespace
}  // namespace tessera::ops::detail
