// Tests complex tensors: values, parts as views, and rejected calls.
#include "tessera/ops/pointwise/complex.h"

#include <gtest/gtest.h>

#include <complex>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;
using Complex = std::complex<float>;
using Complexes = std::vector<Complex>;

Tensor complex_of(const Complexes& values) {
  std::vector<double> parts;
  for (const Complex& value : values) parts.insert(parts.end(), {value.real(), value.imag()});
  return view_as_complex(to_tensor(Array(Shape({static_cast<std::int64_t>(values.size()), 2}), parts), DType::kF32));
}
Complexes values_of(const Tensor& tensor) {
  const Array parts = to_array(view_as_real(tensor));
  Complexes values;
  for (std::size_t i = 0; i < parts.values.size(); i += 2) {
    values.emplace_back(static_cast<float>(parts.values[i]), static_cast<float>(parts.values[i + 1]));
  }
  return values;
}

TEST(Complex, ArithmeticIsComplex) {
  const Tensor a = complex_of({{1, 2}, {3, -1}});
  const Tensor b = complex_of({{0, 1}, {2, 2}});
  EXPECT_EQ(values_of(a + b), (Complexes{{1, 3}, {5, 1}}));
  EXPECT_EQ(values_of(a - b), (Complexes{{1, 1}, {1, -3}}));
  EXPECT_EQ(values_of(a * b), (Complexes{{-2, 1}, {8, 4}}));
  EXPECT_EQ(values_of(a / b), (Complexes{{2, -1}, {0.5F, -1}}));
  EXPECT_EQ(values_of(-a), (Complexes{{-1, -2}, {-3, 1}}));
  EXPECT_EQ(values_of(a * Scalar(std::complex<double>(0, 1))), (Complexes{{-2, 1}, {1, 3}}));
  EXPECT_EQ(values_of(conj(a)), (Complexes{{1, -2}, {3, 1}}));
  EXPECT_EQ(to_array(abs(complex_of({{3, 4}, {0, 0}}))).values, (std::vector<double>{5, 0}));
  EXPECT_EQ(abs(a).dtype(), DType::kF32);
  EXPECT_NEAR(values_of(exp(complex_of({{0, 3.14159265F}})))[0].real(), -1, 1e-6);
  EXPECT_EQ(to_array(eq(a, complex_of({{1, 2}, {3, 1}}))).values, (std::vector<double>{1, 0}));
  EXPECT_EQ((a + to_tensor(Array(Shape({2}), 1.0), DType::kF32)).dtype(), DType::kC64);
}

TEST(Complex, PartsAreViews) {
  const Tensor x = complex_of({{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(to_array(real(x)).values, (std::vector<double>{1, 3, 5}));
  EXPECT_EQ(to_array(imag(x)).values, (std::vector<double>{2, 4, 6}));
  mul_(imag(x), 10);
  EXPECT_EQ(values_of(x), (Complexes{{1, 20}, {3, 40}, {5, 60}}));
  EXPECT_EQ(view_as_real(x).shape(), Shape({3, 2}));
  const Tensor back = x.as_strided({2}, Strides({-2}), 2);
  EXPECT_EQ(to_array(real(back)).values, (std::vector<double>{5, 1}));
  const Tensor r = to_tensor(Array(Shape({2}), 1.0), DType::kF32);
  EXPECT_TRUE(real(r).is_same(r));
  EXPECT_TRUE(conj(r).is_same(r));
}

TEST(Complex, CastsTakeTheRealPartAndAddNone) {
  const Tensor x = complex_of({{1.5F, 2}, {0, 3}});
  EXPECT_EQ(to_array(cast(x, DType::kF32)).values, (std::vector<double>{1.5, 0}));
  EXPECT_EQ(to_array(cast(x, DType::kBool)).values, (std::vector<double>{1, 1}));
  EXPECT_EQ(values_of(cast(cast(x, DType::kC128), DType::kC64)), values_of(x));
  EXPECT_EQ(values_of(cast(to_tensor(Array(Shape({1}), 7.0), DType::kI8), DType::kC64)), (Complexes{{7, 0}}));
}

TEST(Complex, RefusesWhatHasNoPairsOrNoOrder) {
  const Tensor x = complex_of({{1, 2}, {3, 4}});
  expect_error<InvalidArgument>([&] { (void)lt(x, x); }, {"lt", "c64"});
  expect_error<InvalidArgument>([&] { (void)maximum(x, x); }, {"maximum", "c64"});
  const Tensor odd = to_tensor(Array(Shape({3, 3}), 0.0), DType::kF32);
  expect_error<InvalidArgument>([&] { (void)view_as_complex(odd); }, {"view_as_complex", "must have size 2"});
  expect_error<InvalidArgument>(
      [&] {
        (void)view_as_complex(odd.as_strided({2, 2}, Strides({3, 1}), 0));
      },
      {"real and imaginary parts must be adjacent", "contiguous"});
  expect_error<InvalidArgument>([&] { (void)imag(odd); }, {"imag", "must be c64, got f32"});
}

}  // namespace
}  // namespace tessera::ops
