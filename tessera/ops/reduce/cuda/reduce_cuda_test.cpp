// Reductions, cumulative sums and histograms of a GPU where the reference cases do not reach: several blocks and
// chunks, every dtype, any strides, ties and nans, repeated and replayed calls.
#include <cmath>
#include <limits>

#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::expect_near;
using testing::expect_same_bits;
using testing::to_tensor;

const Shape kShapes[] = {{1},          {1000003},    {3, 100000}, {100000, 3}, {257, 1025},
                         {1030, 4, 5}, {33, 50, 64}, {600, 9000}, {40, 2048},  {7, 4096}};
const DType kFloats[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};
const DType kAll[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64,
                      DType::kI32, DType::kI16, DType::kI8,   DType::kU8,  DType::kBool};

double tolerance_of(DType dtype) { return dtype == DType::kF64 ? 1e-10 : dtype == DType::kF32 ? 1e-5 : 1.0 / 64; }

class ReduceOnCuda : public testing::OnCuda {
 protected:
  // Numbers with many ties: [-20, 20], or [0, 1] in bool.
  static Tensor numbers(const Shape& shape, DType dtype) {
    const std::int64_t low = is_signed(dtype) ? -20 : 0;
    return cast(randint(low, dtype == DType::kBool ? 2 : 21, shape, {.dtype = DType::kI64}), dtype);
  }
  template <class F>
  static void for_each_dim(const Tensor& x, const F& body) {
    for (std::int64_t dim = 0; dim < x.ndim(); ++dim) {
      SCOPED_TRACE(describe(x) + " over " + std::to_string(dim));
      body(dim);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(ReduceOnCuda, ExtremesSearchesAndTruthsAreThoseOfTheHost) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : kAll) {
      const Tensor x = numbers(shape, dtype);
      const Tensor y = there(x);
      for_each_dim(x, [&](std::int64_t dim) {
        expect_same_bits(here(argmax(y, dim)), argmax(x, dim));
        expect_same_bits(here(argmin(y, dim, true)), argmin(x, dim, true));
        expect_near(here(amax(y, {dim})), amax(x, {dim}), 0);
        expect_near(here(amin(y, {dim}, true)), amin(x, {dim}, true), 0);
        expect_same_bits(here(any(y, {dim})), any(x, {dim}));
        expect_same_bits(here(all(y, {dim})), all(x, {dim}));
      });
      expect_near(here(amax(y)), amax(x), 0);
      expect_same_bits(here(argmax(y)), argmax(x));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(ReduceOnCuda, StatisticsAreCloseToThoseOfTheHost) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Shape& shape : kShapes) {
    for (const DType dtype : kFloats) {
      const Tensor x = randn(shape, {.dtype = dtype});
      const Tensor y = there(x);
      const double tolerance = tolerance_of(dtype);
      for_each_dim(x, [&](std::int64_t dim) {
        const bool has_variance = x.size(static_cast<int>(dim)) > 1;
        if (has_variance) expect_near(here(var(y, {dim})), var(x, {dim}), tolerance);
        expect_near(here(logsumexp(y, {dim})), logsumexp(x, {dim}), tolerance);
        for (const double p : {2.0, 1.0, 0.0, kInf, -kInf})
          expect_near(here(norm(y, p, {dim})), norm(x, p, {dim}), tolerance);
      });
      expect_near(here(var(y, {}, 0)), var(x, {}, 0), tolerance);
      expect_near(here(norm(y, 3)), norm(x, 3), tolerance);
      if (HasFatalFailure()) return;
    }
  }
}

// The mean is a million times the deviation: squares of elements would leave nothing of it.
TEST_F(ReduceOnCuda, VariancesKeepTheirDigitsUnderALargeMean) {
  for (const Shape& shape : {Shape({300000}), Shape({5, 3000}), Shape({3000, 40})}) {
    const Tensor x = add(randn(shape, {.dtype = DType::kF64}), 1e6);
    expect_near(here(var(there(x), {0})), var(x, {0}), 1e-8);
    const Tensor narrow = add(rand(shape), 1000.0);
    expect_near(here(var(there(narrow), {0})), var(narrow, {0}), 1e-4);
  }
}

TEST_F(ReduceOnCuda, ProductsAndDeviations) {
  for (const Shape& shape : {Shape({257, 33}), Shape({3, 5000}), Shape({2000, 40})}) {
    for (const DType dtype : kFloats) {
      // Powers of two, so that products are exact and stay in range.
      const Tensor x =
          cast(add(mul(cast(randint(0, 2, shape, {.dtype = DType::kI64}), DType::kF32), -2.0), 1.0), dtype);
      const Tensor noise = randn(shape, {.dtype = dtype});
      for_each_dim(x, [&](std::int64_t dim) {
        expect_near(here(prod(there(x), {dim})), prod(x, {dim}), 0);
        expect_near(here(deviation(there(noise), {dim})), deviation(noise, {dim}), tolerance_of(dtype));
      });
    }
    const Tensor wrapping = numbers(shape, DType::kI32);
    expect_same_bits(here(prod(there(wrapping), {1})), prod(wrapping, {1}));
  }
}

TEST_F(ReduceOnCuda, AnyStridesAndAddresses) {
  const Tensor x = numbers({130, 70, 34}, DType::kF32);
  const auto views = [](const Tensor& whole) {
    return std::vector<Tensor>{transpose(whole, 0, 2), transpose(whole, 0, 1), slice(whole, 2, 1),
                               slice(whole, 1, 3, 60, 3)};
  };
  const std::vector<Tensor> here_views = views(x);
  const std::vector<Tensor> there_views = views(there(x));
  for (std::size_t i = 0; i < here_views.size(); ++i) {
    const Tensor& a = here_views[i];
    const Tensor& b = there_views[i];
    for_each_dim(a, [&](std::int64_t dim) {
      expect_same_bits(here(argmax(b, dim)), argmax(a, dim));
      expect_near(here(amin(b, {dim})), amin(a, {dim}), 0);
      expect_near(here(var(b, {dim})), var(a, {dim}), 1e-5);
      expect_near(here(cumsum(b, dim)), cumsum(a, dim), 1e-5);
    });
    expect_near(here(norm(b, 2, {0, 2})), norm(a, 2, {0, 2}), 1e-5);
  }
}

TEST_F(ReduceOnCuda, NansAndInfinitiesAreFound) {
  for (const std::int64_t n : {40, 700, 5000, 300000}) {
    Array values(Shape({4, n}), 1);
    const auto last = static_cast<std::size_t>(n) - 1;
    values.values[last] = values.values[last - 1] = std::nan("");  // row 0
    values.values[last + 3] = INFINITY;                            // row 1
    for (std::size_t i = 0; i <= last; ++i) values.values[2 * (last + 1) + i] = -INFINITY;
    values.values[4 * (last + 1) - 2] = 2;  // row 3
    const Tensor x = to_tensor(values, DType::kF32);
    const Tensor y = there(x);
    EXPECT_EQ(testing::to_array(here(argmax(y, 1))).values,
              (std::vector<double>{static_cast<double>(n) - 2, 2, 0, static_cast<double>(n) - 2}));
    for (const auto& reduce :
         {+[](const Tensor& t) { return amax(t, {1}); }, +[](const Tensor& t) { return logsumexp(t, {1}); },
          +[](const Tensor& t) { return norm(t, 2, {1}); }, +[](const Tensor& t) { return cumsum(t, 1); }}) {
      expect_near(here(reduce(y)), reduce(x), 1e-5);
    }
  }
}

TEST_F(ReduceOnCuda, NothingIsReducedToTheIdentity) {
  for (const Shape& shape : {Shape({3, 0}), Shape({0, 5})}) {
    for (const DType dtype : {DType::kF32, DType::kI32, DType::kBool}) {
      const Tensor x = zeros(shape, {.dtype = dtype});
      for (const std::int64_t dim : {0, 1}) {
        expect_near(here(prod(there(x), {dim})), prod(x, {dim}), 0);
        expect_near(here(amax(there(x), {dim})), amax(x, {dim}), 0);
        expect_near(here(amin(there(x), {dim})), amin(x, {dim}), 0);
        expect_near(here(any(there(x), {dim})), any(x, {dim}), 0);
        expect_near(here(all(there(x), {dim})), all(x, {dim}), 0);
        EXPECT_EQ(cumsum(there(x), dim).shape(), shape);
      }
    }
    const Tensor x = zeros(shape);
    expect_near(here(logsumexp(there(x), {0})), logsumexp(x, {0}), 0);
    expect_near(here(var(there(x), {0})), var(x, {0}), 0);
    expect_same_bits(here(histc(there(x), 3, 0, 1)), histc(x, 3, 0, 1));
  }
}

TEST_F(ReduceOnCuda, SearchesOfShardsFindGlobalIndices) {
  const Tensor x = numbers({9, 8}, DType::kF32);
  const layout::IndexMap map{
      .offset = 4, .block = 2, .levels = {{.count = 2, .stride = 40}, {.count = 2, .stride = 8}}};
  const ArgAttributes attributes{1, false, map};
  for (const char* name : {"argmax", "argmin"}) {
    const tensor::Operator op = tensor::find_op(name);
    expect_same_bits(here(tensor::call(op, {there(x)}, attributes)), tensor::call(op, {x}, attributes));
  }
}

TEST_F(ReduceOnCuda, TargetsAreCounted) {
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    for (const Shape& shape : {Shape({}), Shape({0}), Shape({100003}), Shape({30, 50})}) {
      const Tensor x = randint(-2, 3, shape, {.dtype = dtype});
      for (const std::int64_t ignored : {-100, 1}) {
        expect_same_bits(here(count_targets(there(x), ignored)), count_targets(x, ignored));
      }
    }
  }
}

TEST_F(ReduceOnCuda, CumulativeSumsOfLinesOfAllLengths) {
  const tensor::Operator op = tensor::find_op("cumsum");
  for (const Shape& shape :
       {Shape({1}), Shape({7}), Shape({5, 1000}), Shape({3, 5000}), Shape({2, 100000}), Shape({1000000}),
        Shape({4000, 40}), Shape({50, 30, 20}), Shape({100000, 33}), Shape({3, 8192})}) {
    for (const DType dtype : kAll) {
      const Tensor x = numbers(shape, dtype);
      for_each_dim(x, [&](std::int64_t dim) {
        for (const bool is_reverse : {false, true}) {
          const CumsumAttributes attributes{dim, is_reverse};
          const Tensor want = tensor::call(op, {x}, attributes);
          const Tensor got = here(tensor::call(op, {there(x)}, attributes));
          if (is_floating(dtype)) {
            expect_near(got, want, tolerance_of(dtype));
          } else {
            expect_same_bits(got, want);
          }
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(ReduceOnCuda, HistogramsCountWhatTheHostCounts) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kU8}) {
    const Tensor x = is_floating(dtype) ? randn({1000, 333}, {.dtype = dtype}) : numbers({1000, 333}, dtype);
    for (const std::int64_t bins : {1, 7, 5000}) {
      expect_same_bits(here(histc(there(x), bins, -1.5, 2)), histc(x, bins, -1.5, 2));
      expect_same_bits(here(histc(transpose(there(x), 0, 1), bins, 0, 1)), histc(x, bins, 0, 1));
    }
  }
}

TEST_F(ReduceOnCuda, ResultsRepeat) {
  const Tensor flat = there(randn({3000017}));
  const Tensor rows = there(randn({30, 70000}));
  const Tensor columns = there(randn({70000, 40}, {.dtype = DType::kBF16}));
  expect_repeats([&] {
    std::vector<Tensor> all;
    for (const Tensor& x : {flat, rows, columns}) {
      all.push_back(sum(x, {0}));
      all.push_back(var(x, {0}));
      all.push_back(logsumexp(x, {-1}));
      all.push_back(norm(x, 2));
      all.push_back(argmax(x, 0));
      all.push_back(cumsum(x, 0));
      all.push_back(histc(x, 100, -1, 1));
    }
    return all;
  });
}

}  // namespace
}  // namespace tessera::ops
