// Names and sizes of dtypes, and the narrow floats: every bit pattern and every rounding boundary, compared with a
// reference that finds the nearest of all values of a format by exact comparison in double precision.
#include "tessera/base/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Returns the value of bits by the definition of the format, independent of the tested code.
template <class T>
double value_by_definition(unsigned bits, int exponent_bits, int fraction_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned exponent = (bits >> fraction_bits) & ((1u << exponent_bits) - 1);
  const unsigned fraction = bits & ((1u << fraction_bits) - 1);
  const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == (1u << exponent_bits) - 1) {
    if (has_infinity) return fraction == 0 ? sign * HUGE_VAL : NAN;
    if (fraction == (1u << fraction_bits) - 1) return NAN;
  }
  const double scaled = std::ldexp(fraction, -fraction_bits);
  if (exponent == 0) return sign * std::ldexp(scaled, 1 - bias);
  return sign * std::ldexp(1.0 + scaled, static_cast<int>(exponent) - bias);
}

struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;
};

template <class T>
struct FormatOf;
template <>
struct FormatOf<f16> {
  static constexpr Format value = {5, 10, true};
};
template <>
struct FormatOf<bf16> {
  static constexpr Format value = {8, 7, true};
};
template <>
struct FormatOf<f8e4m3> {
  static constexpr Format value = {4, 3, false};
};
template <>
struct FormatOf<f8e5m2> {
  static constexpr Format value = {5, 2, true};
};

template <class T>
class SmallFloat : public ::testing::Test {
 public:
  static constexpr unsigned kPatterns = 1u << (8 * sizeof(T));
  static constexpr Format kFormat = FormatOf<T>::value;

  static T from(unsigned bits) { return T::from_bits(static_cast<typename T::Bits>(bits)); }
  static double exact(unsigned bits) {
    return value_by_definition<T>(bits, kFormat.exponent_bits, kFormat.fraction_bits, kFormat.has_infinity);
  }
  // Returns the number of finite, non-negative values, whose bit patterns are in order.
  static unsigned finite_count() {
    static const unsigned known = [] {
      unsigned count = 0;
      while (count < kPatterns / 2 && std::isfinite(exact(count))) ++count;
      return count;
    }();
    return known;
  }
  // Returns the value one step after the last finite one: halfway to it is the overflow boundary.
  static double beyond_largest() {
    const double last = exact(finite_count() - 1);
    return last + (last - exact(finite_count() - 2));
  }
  static unsigned overflow_bits() { return finite_count(); }

  // Returns the nearest value (ties to even) to a positive value, by search.
  static unsigned nearest_by_search(double value) {
    const unsigned count = finite_count();
    unsigned low = 0;
    unsigned high = count;
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (exact(middle) <= value ? low : high) = middle;
    }
    const double below = exact(low);
    const double above = low + 1 == count ? beyond_largest() : exact(low + 1);
    if (value - below < above - value) return low;
    if (value - below > above - value) return low + 1;
    return low % 2 == 0 ? low : low + 1;
  }
};

using SmallFloats = ::testing::Types<f16, bf16, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(SmallFloat, SmallFloats);

template <class T>
bool same_bits(T a, unsigned b) {
  return a.bits() == static_cast<typename T::Bits>(b);
}

TYPED_TEST(SmallFloat, WidensEveryPatternExactly) {
  for (unsigned bits = 0; bits < TestFixture::kPatterns; ++bits) {
    const float widened = TestFixture::from(bits);
    const double expected = TestFixture::exact(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(widened), expected) << bits;
    }
    ASSERT_EQ(std::signbit(widened), bits >= TestFixture::kPatterns / 2) << bits;
  }
}

TYPED_TEST(SmallFloat, NarrowsEveryValueBackToItself) {
  for (unsigned bits = 0; bits < TestFixture::kPatterns; ++bits) {
    const float widened = TestFixture::from(bits);
    const TypeParam back(widened);
    const TypeParam back_from_double(static_cast<double>(widened));
    ASSERT_EQ(back.bits(), back_from_double.bits()) << bits;
    if (std::isnan(widened)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << bits;
      ASSERT_EQ(std::signbit(static_cast<float>(back)), std::signbit(widened)) << bits;
    } else {
      ASSERT_TRUE(same_bits(back, bits)) << bits;
    }
  }
}

// Halfway between each two neighbors, and one step of float and of double to either side: the extreme values on which
// each rounding decision depends. A conversion through float loses the steps of double.
TYPED_TEST(SmallFloat, RoundsAtEveryBoundaryOnceToNearestEven) {
  const unsigned count = TestFixture::finite_count();
  for (unsigned low = 0; low < count; ++low) {
    const double above = low + 1 == count ? TestFixture::beyond_largest() : TestFixture::exact(low + 1);
    const double middle = (TestFixture::exact(low) + above) / 2;
    const unsigned tie = low % 2 == 0 ? low : low + 1;
    const unsigned sign = TestFixture::kPatterns / 2;
    ASSERT_TRUE(same_bits(TypeParam(middle), tie)) << low;
    ASSERT_TRUE(same_bits(TypeParam(-middle), tie | sign)) << low;
    ASSERT_TRUE(same_bits(TypeParam(std::nextafter(middle, 0.0)), low)) << low;
    ASSERT_TRUE(same_bits(TypeParam(std::nextafter(middle, HUGE_VAL)), low + 1)) << low;
    ASSERT_TRUE(same_bits(TypeParam(-std::nextafter(middle, HUGE_VAL)), (low + 1) | sign)) << low;
    const auto middle_float = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(middle_float), middle) << "every middle is a float";
    ASSERT_TRUE(same_bits(TypeParam(middle_float), tie)) << low;
    ASSERT_TRUE(same_bits(TypeParam(std::nextafter(middle_float, 0.0f)), low)) << low;
    ASSERT_TRUE(same_bits(TypeParam(std::nextafter(middle_float, HUGE_VALF)), low + 1)) << low;
  }
  EXPECT_TRUE(same_bits(TypeParam(HUGE_VAL), TestFixture::overflow_bits()));
  EXPECT_TRUE(same_bits(TypeParam(1e300), TestFixture::overflow_bits()));
  EXPECT_TRUE(same_bits(TypeParam(1e-300), 0));
  EXPECT_TRUE(same_bits(TypeParam(5e-324), 0));
}

TYPED_TEST(SmallFloat, AgreesWithASearchOnRandomValues) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) {
    const auto word = static_cast<std::uint32_t>(random()) & 0x7fffffffu;
    float value = 0;
    std::memcpy(&value, &word, sizeof value);
    if (std::isnan(value)) continue;
    ASSERT_TRUE(same_bits(TypeParam(value), TestFixture::nearest_by_search(value))) << value;
    // A double close to the range of the format.
    const double wide =
        std::ldexp(1.0 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(random() % 40) - 25);
    ASSERT_TRUE(same_bits(TypeParam(wide), TestFixture::nearest_by_search(wide))) << wide;
  }
}

TYPED_TEST(SmallFloat, SaturatesWhenAsked) {
  const auto largest = static_cast<float>(TypeParam::largest());
  EXPECT_EQ(static_cast<double>(largest), TestFixture::exact(TestFixture::finite_count() - 1));
  EXPECT_EQ(static_cast<float>(saturate<TypeParam>(HUGE_VAL)), largest);
  EXPECT_EQ(static_cast<float>(saturate<TypeParam>(-HUGE_VALF)), -largest);
  EXPECT_EQ(static_cast<float>(saturate<TypeParam>(TestFixture::beyond_largest())), largest);
  EXPECT_EQ(static_cast<float>(saturate<TypeParam>(1.0f)), 1.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(saturate<TypeParam>(NAN))));
}

TYPED_TEST(SmallFloat, IsTrivialAndZeroWhenBraced) {
  static_assert(std::is_trivial_v<TypeParam> && std::is_standard_layout_v<TypeParam>);
  static_assert(!std::is_convertible_v<float, TypeParam> && std::is_convertible_v<TypeParam, float>);
  EXPECT_EQ(TypeParam{}.bits(), 0);
  EXPECT_EQ(to_string(TypeParam(1.5f)), "1.5");
  constexpr TypeParam one(1.0f);  // usable in constant expressions
  static_assert(static_cast<float>(one) == 1.0f);
}

TEST(SmallFloatValues, KnownPatterns) {
  EXPECT_EQ(f16(65504.0f).bits(), 0x7bff);
  EXPECT_EQ(f16(65519.0f).bits(), 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits(), 0x7c00);
  EXPECT_EQ(f16(0x1p-24f).bits(), 0x0001);
  EXPECT_EQ(f16(0x1p-25f).bits(), 0x0000);
  EXPECT_EQ(f16(-0.0f).bits(), 0x8000);
  EXPECT_EQ(bf16(1.0f).bits(), 0x3f80);
  EXPECT_EQ(bf16(3.4e38f).bits(), 0x7f80);
  EXPECT_EQ(f8e4m3(448.0f).bits(), 0x7e);
  EXPECT_EQ(f8e4m3(464.0f).bits(), 0x7e);
  EXPECT_EQ(f8e4m3(465.0f).bits(), 0x7f);
  EXPECT_EQ(f8e4m3(-1e9f).bits(), 0xff);
  EXPECT_EQ(f8e4m3(0x1p-9f).bits(), 0x01);
  EXPECT_EQ(f8e5m2(57344.0f).bits(), 0x7b);
  EXPECT_EQ(f8e5m2(61440.0f).bits(), 0x7c);
}

TEST(SmallFloatValues, NansKeepSignAndUpperPayload) {
  const auto nan_of = [](std::uint32_t word) { return std::bit_cast<float>(word); };
  EXPECT_EQ(f16(nan_of(0x7fc00000)).bits(), 0x7e00);
  EXPECT_EQ(f16(nan_of(0xff802000)).bits(), 0xfe01);   // a signaling nan becomes quiet
  EXPECT_EQ(bf16(nan_of(0x7f800001)).bits(), 0x7fc0);  // its payload is too low to keep; it must not become infinity
  EXPECT_EQ(f8e4m3(nan_of(0xffc00000)).bits(), 0xff);
  EXPECT_EQ(f8e5m2(nan_of(0x7f800001)).bits(), 0x7e);
}

TEST(SmallFloatValues, DoublesAndIntegersAreRoundedOnce) {
  // Just above halfway: float drops the excess, and the tie would round down.
  const double above_tie = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(f16(above_tie).bits(), 0x3c01);
  EXPECT_EQ(f16(static_cast<float>(above_tie)).bits(), 0x3c00);
  // The same for bf16 and integers that no double represents: 2^62 + 2^54 + 1 is above the middle of its neighbors.
  const std::int64_t wide = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
  EXPECT_EQ(bf16(wide).bits(), bf16(0x1p62f).bits() + 1);
  EXPECT_EQ(bf16(-wide).bits(), bf16(-0x1p62f).bits() + 1);
  EXPECT_EQ(bf16(static_cast<double>(wide)).bits(), bf16(0x1p62f).bits());
  EXPECT_EQ(static_cast<float>(bf16(std::numeric_limits<std::int64_t>::min())), -0x1p63f);
  EXPECT_EQ(static_cast<float>(bf16(std::numeric_limits<std::uint64_t>::max())), 0x1p64f);
  EXPECT_EQ(static_cast<float>(f16(2049)), 2048.0f);
  EXPECT_EQ(static_cast<float>(f16(-7)), -7.0f);
}

TEST(DType, NamesGoBothWays) {
  std::set<std::string_view> names;
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
    names.insert(to_string(dtype));
  }
  EXPECT_EQ(names.size(), 17u);
  EXPECT_EQ(to_string(DType::kF8E4M3), "f8e4m3");
  EXPECT_EQ(to_string(DType::kC128), "c128");
}

TEST(DType, UnknownNamesListTheKnownAndTheNearest) {
  try {
    parse_dtype("bf61");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(
        error.message(),
        "dtype must be one of [f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool, c64, "
        "c128], got 'bf61' (did you mean 'bf16'?)");
  }
  EXPECT_THROW(parse_dtype(""), InvalidArgument);
  EXPECT_THROW(parse_dtype("F32"), InvalidArgument);
}

template <class T>
void expect_storage(DType dtype) {
  EXPECT_EQ(dtype_of<T>(), dtype) << to_string(dtype);
  EXPECT_EQ(itemsize(dtype), sizeof(T)) << to_string(dtype);
}

TEST(DType, SizesAreThoseOfTheirTypes) {
  expect_storage<double>(DType::kF64);
  expect_storage<float>(DType::kF32);
  expect_storage<f16>(DType::kF16);
  expect_storage<bf16>(DType::kBF16);
  expect_storage<f8e4m3>(DType::kF8E4M3);
  expect_storage<f8e5m2>(DType::kF8E5M2);
  expect_storage<std::int64_t>(DType::kI64);
  expect_storage<long long>(DType::kI64);
  expect_storage<std::int32_t>(DType::kI32);
  expect_storage<std::int16_t>(DType::kI16);
  expect_storage<std::int8_t>(DType::kI8);
  expect_storage<std::uint64_t>(DType::kU64);
  expect_storage<unsigned long long>(DType::kU64);
  expect_storage<std::uint32_t>(DType::kU32);
  expect_storage<std::uint16_t>(DType::kU16);
  expect_storage<std::uint8_t>(DType::kU8);
  expect_storage<bool>(DType::kBool);
  expect_storage<std::complex<float>>(DType::kC64);
  expect_storage<std::complex<double>>(DType::kC128);
  static_assert(!detail::Element<char> && !detail::Element<char32_t> && !detail::Element<int*>);
}

TEST(DType, KindsPartitionThem) {
  for (const DType dtype : kAllDTypes) {
    const int kinds = is_floating(dtype) + is_complex(dtype) + is_integral(dtype) + (dtype == DType::kBool);
    EXPECT_EQ(kinds, 1) << to_string(dtype);
    const bool is_unsigned = to_string(dtype).starts_with("u") || dtype == DType::kBool;
    EXPECT_EQ(is_signed(dtype), !is_unsigned) << to_string(dtype);
    EXPECT_EQ(is_floating(dtype), to_string(dtype).find('f') != std::string_view::npos) << to_string(dtype);
    EXPECT_EQ(itemsize(real_of(dtype)), is_complex(dtype) ? itemsize(dtype) / 2 : itemsize(dtype));
  }
  EXPECT_EQ(real_of(DType::kC64), DType::kF32);
  EXPECT_EQ(real_of(DType::kC128), DType::kF64);
}

}  // namespace
}  // namespace tessera
