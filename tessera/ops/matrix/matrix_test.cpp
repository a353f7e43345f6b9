// Products beyond the operators' cases: broadcasting, equations, threads, dtypes, errors.
#include "tessera/ops/matrix/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstring>
#include <random>

#include "tessera/ops/create/create.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/testing/simulated_shards.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;

Tensor random_tensor(const Shape& shape, DType dtype = DType::kF64, std::uint64_t seed = 1) {
  testing::Random random(seed);
  return to_tensor(testing::normal(random, shape).value, dtype);
}

double element(const Tensor& tensor, std::initializer_list<std::int64_t> index) {
  const Array array = to_array(tensor);
  std::int64_t place = 0;
  std::size_t dim = 0;
  for (const std::int64_t i : index) place = place * array.shape[dim++] + i;
  return array.values[static_cast<std::size_t>(place)];
}

void expect_same(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.shape(), b.shape());
  const Array x = to_array(a);
  const Array y = to_array(b);
  for (std::size_t i = 0; i < x.values.size(); ++i) ASSERT_NEAR(x.values[i], y.values[i], tolerance) << i;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Matmul, BroadcastsLeadingDimensions) {
  const Tensor a = random_tensor({2, 1, 3, 4});
  const Tensor b = random_tensor({5, 4, 2});
  const Tensor c = matmul(a, b);
  ASSERT_EQ(c.shape(), Shape({2, 5, 3, 2}));
  for (std::int64_t n = 0; n < 5; ++n) {
    double sum = 0;
    for (std::int64_t k = 0; k < 4; ++k) sum += element(a, {1, 0, 2, k}) * element(b, {n, k, 1});
    EXPECT_NEAR(element(c, {1, n, 2, 1}), sum, 1e-12);
  }
}

TEST(Matmul, VectorsAreRowsOnTheLeftAndColumnsOnTheRight) {
  const Tensor v = random_tensor({4});
  const Tensor m = random_tensor({4, 3});
  EXPECT_EQ(matmul(v, v).shape(), Shape());
  EXPECT_EQ(matmul(v, m).shape(), Shape({3}));
  EXPECT_EQ(matmul(random_tensor({2, 3, 4}), v).shape(), Shape({2, 3}));
  EXPECT_EQ(matmul(v, random_tensor({2, 4, 3})).shape(), Shape({2, 3}));
  double sum = 0;
  for (std::int64_t k = 0; k < 4; ++k) sum += element(v, {k}) * element(m, {k, 2});
  EXPECT_NEAR(element(matmul(v, m), {2}), sum, 1e-12);
}

TEST(Matmul, ManyRowsTimesOneMatrixIsTheSameAsOneByOne) {
  const Tensor a = random_tensor({3, 5, 4});
  const Tensor b = random_tensor({4, 2});
  const Tensor c = matmul(a, b);
  const Tensor flat = mm(a.as_strided({15, 4}, {4, 1}, 0), b);
  EXPECT_EQ(to_array(c).values, to_array(flat).values);
}

TEST(Matmul, NamesWhatDoesNotFit) {
  EXPECT_THAT(message_of([] {
                matmul(random_tensor({2, 3}), random_tensor({4, 5}));
              }),
              ::testing::AllOf(::testing::HasSubstr("matmul: columns of the left operand"),
                               ::testing::HasSubstr("got 3 of"), ::testing::HasSubstr("and 4 of")));
  EXPECT_THAT(message_of([] {
                mm(random_tensor({2, 3}), random_tensor({3, 4}, DType::kF32));
              }),
              ::testing::HasSubstr("operands must have the same dtype, got f64 and f32; cast one of them"));
  EXPECT_THAT(message_of([] {
                mm(random_tensor({3}), random_tensor({3, 4}));
              }),
              ::testing::HasSubstr("must have 2 dimensions, got 1"));
  EXPECT_THAT(message_of([] {
                linear(random_tensor({2, 3}), random_tensor({4, 3}), random_tensor({3}));
              }),
              ::testing::HasSubstr("linear: bias must have one value per row of weight"));
  EXPECT_THAT(message_of([] {
                matmul(random_tensor({2, 3, 4}), random_tensor({3, 4, 5}));
              }),
              ::testing::HasSubstr("matmul"));
}

TEST(Linear, AddsTheBiasOnce) {
  const Tensor x = random_tensor({2, 3});
  const Tensor weight = random_tensor({4, 3});
  const Tensor bias = random_tensor({4});
  double sum = element(bias, {3});
  for (std::int64_t k = 0; k < 3; ++k) sum += element(x, {1, k}) * element(weight, {3, k});
  EXPECT_NEAR(element(linear(x, weight, bias), {1, 3}), sum, 1e-12);
}

TEST(Addmm, ScalesBothParts) {
  const Tensor a = random_tensor({2, 3});
  const Tensor b = random_tensor({3, 4});
  const Tensor input = random_tensor({4});
  double sum = 0;
  for (std::int64_t k = 0; k < 3; ++k) sum += element(a, {1, k}) * element(b, {k, 2});
  EXPECT_NEAR(element(addmm(input, a, b, 0.5, 2), {1, 2}), 0.5 * element(input, {2}) + 2 * sum, 1e-12);
  EXPECT_NEAR(element(addmm(input, a, b, 0, 1), {1, 2}), sum, 1e-12);
  const Tensor batched = baddbmm(random_tensor({1, 1}), random_tensor({5, 2, 3}), random_tensor({5, 3, 2}));
  EXPECT_EQ(batched.shape(), Shape({5, 2, 2}));
}

TEST(Einsum, ADiagonalOfATensorWithALayoutKeepsItsDtype) {
  const layout::Mesh mesh = layout::Mesh::parse("x=2");
  testing::SimulatedShards shards(mesh);
  const layout::Layout rows = layout::Layout::create(mesh, {layout::Shard(0)});
  for (const DType dtype : {DType::kI32, DType::kBool}) {
    const Tensor square = shards.add(testing::sharding({{2, 2}, dtype, {1, 0, 1, 1}}, rows));
    const Tensor diagonal = einsum("ii->i", {square});
    EXPECT_EQ(diagonal.dtype(), dtype);
    testing::wait_for_work();
    EXPECT_EQ(shards.whole_of(diagonal).values, (std::vector<double>{1, 1}));
  }
}

TEST(Einsum, TakesEquationsOfAllKinds) {
  const Tensor a = random_tensor({2, 3});
  const Tensor b = random_tensor({3, 4});
  const Tensor square = random_tensor({3, 3});
  expect_same(einsum("ik,kj->ij", {a, b}), mm(a, b));
  expect_same(einsum("ik,kj", {a, b}), mm(a, b));
  EXPECT_EQ(einsum("ij->ji", {a}).shape(), Shape({3, 2}));
  EXPECT_NEAR(
      to_array(einsum("ij->", {a})).values[0],
      [&] {
        double sum = 0;
        for (const double value : to_array(a).values) sum += value;
        return sum;
      }(),
      1e-12);
  const Array trace = to_array(einsum("ii", {square}));
  EXPECT_NEAR(trace.values[0], element(square, {0, 0}) + element(square, {1, 1}) + element(square, {2, 2}), 1e-12);
  const Array diagonal = to_array(einsum("ii->i", {square}));
  EXPECT_EQ(diagonal.values[1], element(square, {1, 1}));
  EXPECT_EQ(einsum("i,j->ij", {random_tensor({2}), random_tensor({5})}).shape(), Shape({2, 5}));
  EXPECT_EQ(einsum("...ij,...jk->...ik", {random_tensor({2, 1, 3, 4}), random_tensor({5, 4, 6})}).shape(),
            Shape({2, 5, 3, 6}));
}

TEST(Einsum, ContractsChainsAndSumsWhatStandsAlone) {
  const Tensor a = random_tensor({2, 3}, DType::kF64, 1);
  const Tensor b = random_tensor({3, 4}, DType::kF64, 2);
  const Tensor c = random_tensor({4, 5}, DType::kF64, 3);
  expect_same(einsum("ij,jk,kl->il", {a, b, c}), mm(mm(a, b), c));
  double sum = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) sum += element(a, {i, j}) * element(b, {j, 1});
  }
  EXPECT_NEAR(element(einsum("ij,jk->k", {a, b}), {1}), sum, 1e-12);
}

TEST(Einsum, NamesWhatItCannotRead) {
  const Tensor a = random_tensor({2, 3});
  EXPECT_THAT(message_of([&] { einsum("ij,jk->ik", {a}); }), ::testing::HasSubstr("requires 2 tensors, got 1"));
  EXPECT_THAT(message_of([&] { einsum("ijk->i", {a}); }), ::testing::HasSubstr("'ijk'"));
  EXPECT_THAT(message_of([&] { einsum("ij->ix", {a}); }), ::testing::HasSubstr("'x' of the result"));
  EXPECT_THAT(message_of([&] { einsum("i1->i", {a}); }), ::testing::HasSubstr("must consist of letters, got '1'"));
  EXPECT_THAT(message_of([&] {
                einsum("ij,ij->", {a, random_tensor({2, 4})});
              }),
              ::testing::HasSubstr("sizes of 'j' must be equal, got 3"));
}

TEST(Products, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor a = random_tensor({700, 300}, dtype, 1);
    const Tensor b = random_tensor({300, 1100}, dtype, 2);
    detail::set_thread_budget(1);
    const Array one = to_array(mm(a, b));
    detail::set_thread_budget(3);
    const Array three = to_array(mm(a, b));
    detail::set_thread_budget(1);
    EXPECT_EQ(one.values, three.values) << to_string(dtype);
  }
}

TEST(Products, OfLargeSizesAreRightInEveryTile) {
  testing::Random random(3);
  // By rows and columns of tiles, and few outputs of a long sum, which are cut into small tiles.
  for (const auto& [m, n, k] : {std::array{600, 1030, 130}, std::array{130, 200, 1500}, std::array{70, 410, 2000}}) {
    const Array a = testing::normal(random, {m, k}).value;
    const Array b = testing::normal(random, {k, n}).value;
    const Array c = to_array(mm(to_tensor(a, DType::kF64, true), to_tensor(b, DType::kF64)));
    for (std::int64_t i = 0; i < m; i += 23) {
      for (std::int64_t j = 0; j < n; j += 31) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x) {
          sum += a.values[static_cast<std::size_t>(i * k + x)] * b.values[static_cast<std::size_t>(x * n + j)];
        }
        EXPECT_NEAR(c.values[static_cast<std::size_t>(i * n + j)], sum, 1e-10) << i << ", " << j;
      }
    }
  }
}

TEST(Products, OfFewOutputsAndALongSumAreShared) {
  const Tensor gradient = random_tensor({2048, 352}, DType::kF32, 1);
  const Tensor x = random_tensor({2048, 128}, DType::kF32, 2);
  detail::set_thread_budget(2);
  const std::uint64_t before = detail::helpers_requested();
  const Tensor weight_gradient = contract(gradient, x, "aj,ak->jk");
  EXPECT_EQ(to_array(weight_gradient).values, to_array(mm(transpose(gradient, 0, 1), x)).values);
  EXPECT_EQ(detail::helpers_requested(), before + 2);
  detail::set_thread_budget(1);
}

TEST(Products, OfLongSumsInHalfTypesAreRoundedOnce) {
  // 3000 products of 1 and 1/256: a bf16 accumulator would stop growing at 1.
  const Tensor a = to_tensor(Array(Shape({1, 3000}), 1), DType::kBF16);
  const Tensor b = to_tensor(Array(Shape({3000, 1}), 1.0 / 256), DType::kBF16);
  EXPECT_NEAR(to_array(mm(a, b)).values[0], 3000.0 / 256, 0.04);
}

TEST(Products, OfIntegersAreExactAndOfTheirOwnDtype) {
  const Tensor a = to_tensor(Array(Shape({2, 2}), {1, 2, 3, 4}), DType::kI32);
  const Tensor b = to_tensor(Array(Shape({2, 2}), {5, 6, 7, 8}), DType::kI32, true);
  EXPECT_EQ(to_array(mm(a, b)).values, (std::vector<double>{19, 22, 43, 50}));
  EXPECT_THAT(message_of([] {
                const Tensor x = to_tensor(Array(Shape({2, 2}), 1), DType::kBool);
                mm(x, x);
              }),
              ::testing::HasSubstr("c64 or an integer dtype, got bool"));
}

TEST(Products, NameTheFunctionThatWasCalledInErrors) {
  const Tensor a = ones({2, 2});
  const Tensor b = ones({2, 2}, {.dtype = DType::kF64});
  const auto expect_message = [&](const std::function<void()>& call, const std::string& start, const std::string& as) {
    const std::string message = message_of(call);
    EXPECT_THAT(message, ::testing::HasSubstr(start + ": operands must have the same dtype, got f32 and f64"));
    EXPECT_THAT(message, ::testing::HasSubstr("called as " + as + "(a: f32[2, 2] on host, b: f64[2, 2] on host)"));
  };
  expect_message([&] { (void)mm(a, b); }, "mm", "mm");
  expect_message([&] { (void)matmul(a, b); }, "matmul", "matmul");
  expect_message([&] { (void)addmm(a, a, b); }, "addmm", "addmm");
}

TEST(Products, OfComplexNumbers) {
  const Tensor a = Tensor::allocate({1, 2}, DType::kC64, device::Device::get("host"));
  const Tensor b = Tensor::allocate({2, 1}, DType::kC64, device::Device::get("host"));
  a.device().synchronize();
  using C = std::complex<float>;
  a.data_as<C>()[0] = {1, 2};
  a.data_as<C>()[1] = {0, 1};
  b.data_as<C>()[0] = {3, -1};
  b.data_as<C>()[1] = {2, 2};
  const Tensor c = mm(a, b);
  c.device().synchronize();
  EXPECT_EQ(*c.data_as<C>(), C(3, 7));
}

}  // namespace
}  // namespace tessera::ops
