// Compares fold() with a reference, element by element, bit for bit.
#include "tessera/comm/reduction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm {
namespace {

using Random = std::mt19937_64;

// Returns the product; integer overflow wraps.
template <class A>
A product_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return static_cast<A>(a * b);
  }
}

template <class T, class A>
T definition_of(const ReduceOp& reduction, const std::vector<std::vector<T>>& inputs, std::size_t at) {
  A sum = static_cast<A>(inputs[0][at]);  // NOLINT(bugprone-signed-char-misuse): numbers
  if (reduction.kind == Reduction::kPremultiply) sum = static_cast<A>(sum * static_cast<A>(reduction.factor));
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    const A value = static_cast<A>(inputs[rank][at]);  // NOLINT(bugprone-signed-char-misuse): numbers
    switch (reduction.kind) {
      case Reduction::kSum:
      case Reduction::kAvg: sum = static_cast<A>(sum + value); break;
      case Reduction::kProd: sum = product_of(sum, value); break;
      case Reduction::kMin: sum = std::isnan(static_cast<double>(value)) || value < sum ? value : sum; break;
      case Reduction::kMax: sum = std::isnan(static_cast<double>(value)) || value > sum ? value : sum; break;
      case Reduction::kPremultiply: {
        const A scaled = static_cast<A>(value * static_cast<A>(reduction.factor));
        sum = static_cast<A>(sum + scaled);
        break;
      }
      default: break;
    }
  }
  if (reduction.kind == Reduction::kAvg) sum = static_cast<A>(sum / static_cast<A>(inputs.size()));
  return static_cast<T>(sum);
}

template <class T, class A>
void expect_fold(DType dtype, Reduction kind, Random& random) {
  SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::string(to_string(kind)));
  for (const std::size_t count : {0, 1, 7, 1023, 1024, 1025, 3000}) {
    for (const std::size_t ranks : {1, 2, 3, 8}) {
      const ReduceOp reduction{kind, 0.3};
      std::vector<std::vector<T>> inputs(ranks);
      std::vector<const std::byte*> from;
      for (auto& input : inputs) {
        for (std::size_t i = 0; i < count; ++i) {
          const double value =
              std::ldexp(static_cast<double>(random() % 2048) - 1024, static_cast<int>(random() % 5) - 6);
          input.push_back(static_cast<T>(static_cast<A>(std::is_integral_v<A> ? std::trunc(value * 4) : value)));
        }
        if (count > 5 && !std::is_integral_v<A> && random() % 2 == 0) {
          input[5] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
        }
        from.push_back(reinterpret_cast<const std::byte*>(input.data()));
      }
      const std::vector<std::vector<T>> before = inputs;
      // One output is the first input.
      std::vector<T> other(count);
      std::byte* to[] = {reinterpret_cast<std::byte*>(inputs[0].data()), reinterpret_cast<std::byte*>(other.data())};
      fold(dtype, reduction, from, to, static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i) {
        const T want = definition_of<T, A>(reduction, before, i);
        // NOLINTBEGIN(bugprone-suspicious-memory-comparison): bit for bit is what is promised
        ASSERT_EQ(std::memcmp(&want, &inputs[0][i], sizeof(T)), 0) << i;
        ASSERT_EQ(std::memcmp(&want, &other[i], sizeof(T)), 0) << i;
        // NOLINTEND(bugprone-suspicious-memory-comparison)
      }
    }
  }
}

TEST(Fold, IsTheLeftFoldInRankOrderRoundedOnce) {
  Random random(5);
  for (const Reduction kind : {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd,
                               Reduction::kPremultiply}) {
    expect_fold<float, float>(DType::kF32, kind, random);
    expect_fold<double, double>(DType::kF64, kind, random);
    expect_fold<bf16, float>(DType::kBF16, kind, random);
    expect_fold<f16, float>(DType::kF16, kind, random);
    if (kind == Reduction::kPremultiply) continue;
    expect_fold<std::int64_t, std::int64_t>(DType::kI64, kind, random);
    expect_fold<std::int32_t, std::int64_t>(DType::kI32, kind, random);
    expect_fold<std::int16_t, std::int64_t>(DType::kI16, kind, random);
    expect_fold<std::int8_t, std::int64_t>(DType::kI8, kind, random);
    expect_fold<std::uint8_t, std::uint64_t>(DType::kU8, kind, random);
    expect_fold<std::uint32_t, std::uint64_t>(DType::kU32, kind, random);
  }
}

TEST(Fold, OfBitsAndOfComplexNumbers) {
  const std::uint8_t a[] = {0b1100, 1};
  const std::uint8_t b[] = {0b1010, 0};
  std::uint8_t out[2] = {};
  const std::byte* from[] = {reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  std::byte* to[] = {reinterpret_cast<std::byte*>(out)};
  fold(DType::kU8, {Reduction::kBitAnd}, from, to, 2);
  EXPECT_EQ(out[0], 0b1000);
  fold(DType::kU8, {Reduction::kBitOr}, from, to, 2);
  EXPECT_EQ(out[0], 0b1110);
  fold(DType::kBool, {Reduction::kBitXor}, from, to, 2);
  EXPECT_EQ(out[0], 0b0110);
  const std::complex<float> x[] = {{1, 2}};
  const std::complex<float> y[] = {{3, -4}};
  std::complex<float> mean[1];
  const std::byte* parts[] = {reinterpret_cast<const std::byte*>(x), reinterpret_cast<const std::byte*>(y)};
  std::byte* result[] = {reinterpret_cast<std::byte*>(mean)};
  fold(DType::kC64, {Reduction::kAvg}, parts, result, 1);
  EXPECT_EQ(mean[0], (std::complex<float>{2, -1}));
}

TEST(Fold, RefusesWhatADtypeDoesNotHave) {
  EXPECT_FALSE(can_reduce(DType::kF8E4M3, Reduction::kSum));
  EXPECT_FALSE(can_reduce(DType::kBool, Reduction::kSum));
  EXPECT_FALSE(can_reduce(DType::kF32, Reduction::kBitAnd));
  EXPECT_FALSE(can_reduce(DType::kI32, Reduction::kPremultiply));
  EXPECT_FALSE(can_reduce(DType::kC64, Reduction::kMax));
  const std::byte in[8] = {};
  const std::byte* from[] = {in};
  expect_error<InvalidArgument>([&] { fold(DType::kC64, {Reduction::kMax}, from, {}, 1); }, {"c64", "max"});
}

// Large reductions bypass the caches, and buffers have any alignment. Neither may change the result or adjacent memory.
TEST(Fold, OfAnySizeAtAnyPlaceIsTheSame) {
  constexpr std::size_t kCount = 600'000;
  constexpr float kBeside = -7;
  std::vector<float> a(kCount + 64);
  std::vector<float> b(kCount + 64);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 1000) * 0.1F;
    b[i] = static_cast<float>(i % 777) * 0.3F;
  }
  for (const std::size_t count : {std::size_t{3}, std::size_t{40}, std::size_t{5000}, kCount}) {
    for (const std::size_t shift : {0, 1, 3, 16, 17}) {
      std::vector<float> x(kCount + 64, kBeside);
      std::vector<float> y(kCount + 64, kBeside);
      const std::byte* in[] = {reinterpret_cast<const std::byte*>(&a[shift]),
                               reinterpret_cast<const std::byte*>(&b[2])};
      std::byte* out[] = {reinterpret_cast<std::byte*>(&x[5]), reinterpret_cast<std::byte*>(&y[5 + shift])};
      fold(DType::kF32, {}, in, out, static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(x[5 + i], a[shift + i] + b[2 + i]) << i << " of " << count << ", shifted by " << shift;
        ASSERT_EQ(y[5 + shift + i], x[5 + i]) << i;
      }
      EXPECT_EQ(x[4], kBeside);
      EXPECT_EQ(x[5 + count], kBeside);
      EXPECT_EQ(y[4 + shift], kBeside);
      EXPECT_EQ(y[5 + shift + count], kBeside);
    }
  }
}

}  // namespace
}  // namespace tessera::comm
