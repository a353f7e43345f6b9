// sort and topk of a GPU against the host, bit for bit: lines for each method, ties, nans and zeros of both signs,
// every dtype, any dimension, repeated and replayed calls.
#include <cmath>

#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::expect_same_bits;
using testing::to_tensor;

class OrderOnCuda : public testing::OnCuda {
 protected:
  // Numbers with ties; floating ones also with nans, infinities and zeros of both signs.
  static Tensor numbers(const Shape& shape, DType dtype) {
    if (!is_floating(dtype)) {
      return cast(randint(is_signed(dtype) ? -100 : 0, dtype == DType::kBool ? 2 : 101, shape, {.dtype = DType::kI64}),
                  dtype);
    }
    Array array = testing::to_array(randn(shape));
    const double special[] = {std::nan(""), INFINITY, -INFINITY, 0.0, -0.0};
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      if (i % 3 == 1) array.values[i] = std::round(array.values[i] * 8) / 8;
      if (i % 7 == 3) array.values[i] = special[i / 7 % 5];
    }
    return to_tensor(array, dtype);
  }

  void expect_sorted(const Tensor& host, const Tensor& gpu, std::int64_t dim) const {
    for (const bool is_descending : {false, true}) {
      SCOPED_TRACE(describe(host) + (is_descending ? ", descending" : ", ascending"));
      const auto [values, indices] = sort(host, dim, is_descending);
      const auto [got_values, got_indices] = sort(gpu, dim, is_descending);
      expect_same_bits(here(got_indices), indices);
      expect_same_bits(here(got_values), contiguous(values));
    }
  }
  void expect_best(const Tensor& host, const Tensor& gpu, std::int64_t k, std::int64_t dim) const {
    for (const bool is_largest : {false, true}) {
      SCOPED_TRACE(describe(host) + ", " + std::to_string(k) + (is_largest ? " largest" : " least"));
      const auto [values, indices] = topk(host, k, dim, is_largest);
      const auto [got_values, got_indices] = topk(gpu, k, dim, is_largest);
      expect_same_bits(here(got_indices), indices);
      expect_same_bits(here(got_values), contiguous(values));
    }
  }
};

const DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64,
                         DType::kI32, DType::kI16, DType::kI8,   DType::kU8,  DType::kBool};

TEST_F(OrderOnCuda, SortsLinesOfAllLengths) {
  for (const DType dtype : kDTypes) {
    for (const Shape& shape :
         {Shape({}), Shape({1}), Shape({3, 0}), Shape({700, 2}), Shape({50, 33}), Shape({9, 1000}), Shape({3, 2048}),
          Shape({3, 2049}), Shape({2, 4096}), Shape({3, 30011}), Shape({200003})}) {
      const Tensor x = numbers(shape, dtype);
      expect_sorted(x, there(x), -1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(OrderOnCuda, SortsAlongAnyDimensionAndStride) {
  const Tensor x = numbers({2500, 3, 5}, DType::kF32);
  for (const std::int64_t dim : {0, 1, 2}) expect_sorted(x, there(x), dim);
  const auto view = [](const Tensor& whole) { return slice(transpose(whole, 0, 2), 2, 1, 2500, 2); };
  for (const std::int64_t dim : {0, 1, 2}) expect_sorted(view(x), view(there(x)), dim);
}

TEST_F(OrderOnCuda, SelectsTheBestOfEveryMethod) {
  for (const DType dtype : kDTypes) {
    const Tensor rows = numbers({40, 5000}, dtype);
    const Tensor line = numbers({1, 300007}, dtype);
    for (const std::int64_t k : {1, 5, 100, 2048, 3000}) {
      expect_best(rows, there(rows), k, 1);
      expect_best(line, there(line), k, 1);
      if (HasFatalFailure()) return;
    }
    const Tensor small = numbers({9, 70}, dtype);
    for (const std::int64_t k : {0, 1, 33, 70}) expect_best(small, there(small), k, 1);
    expect_best(rows, there(rows), 7, 0);
  }
}

// All keys are equal, so that only indices order them.
TEST_F(OrderOnCuda, EqualElementsKeepTheirOrder) {
  for (const double value : {0.0, std::nan("")}) {
    const Tensor x = to_tensor(Array(Shape({2, 100003}), value), DType::kF32);
    expect_sorted(x, there(x), 1);
    for (const std::int64_t k : {3, 2000}) expect_best(x, there(x), k, 1);
  }
}

TEST_F(OrderOnCuda, ResultsRepeat) {
  const Tensor x = there(numbers({3, 50021}, DType::kF32));
  const Tensor line = there(numbers({1000003}, DType::kBF16));
  expect_repeats([&] {
    const auto [a, b] = sort(x, 1);
    const auto [c, d] = topk(x, 50, 1);
    const auto [e, f] = topk(line, 1000, 0);
    const auto [g, h] = sort(line, 0, true);
    return std::vector<Tensor>{a, b, c, d, e, f, g, h};
  });
}

}  // namespace
}  // namespace tessera::ops
