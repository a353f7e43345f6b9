// Compares every operator of the pointwise tables on a GPU with the host: in all dtypes, sizes and strides, with
// special values and arbitrary bits.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "tessera/ops/create/create.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/detail/activation_rows.h"
#include "tessera/ops/pointwise/detail/arithmetic_rows.h"
#include "tessera/ops/pointwise/detail/compare_rows.h"
#include "tessera/ops/pointwise/detail/function_rows.h"
#include "tessera/ops/pointwise/detail/types.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/testing/on_cuda.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of the tables
using tensor::Attributes;
using testing::expect_near;

// An operator of the tables, and its arguments besides the tensors.
struct Row {
  std::string name;
  unsigned types;
  int tensors;
  std::vector<Attributes> attributes = {Attributes()};
};

Attributes number(const Scalar& value) { return Attributes(ScalarAttributes{value}); }

Tensor run(const Row& row, const std::vector<Tensor>& inputs, const Attributes& attributes) {
  Tensor output;
  tensor::call_into({tensor::find_op(row.name), inputs, attributes.ref(), std::span(&output, 1)});
  return output;
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
#define TESSERA_ROW_1(row, types, ...) rows.push_back({#row, (types), 1});
#define TESSERA_ROW_2(row, types, ...) rows.push_back({#row, (types), 2});
#define TESSERA_ORDER(row, types, ...) rows.push_back({#row "_scalar", (types), 1, {number(1), number(0.5)}});
#define TESSERA_TYPES(row, types, ...) [[maybe_unused]] constexpr unsigned types_of_##row = (types);
#define TESSERA_NUMBER(row, formula, ...) rows.push_back({#row, types_of_##formula, 1, {number(2), number(-1.5)}});
  TESSERA_FUNCTION_ROWS(TESSERA_ROW_1)
  TESSERA_PREDICATE_ROWS(TESSERA_ROW_1)
  TESSERA_ACTIVATION_ROWS(TESSERA_ROW_1)
  TESSERA_ARITHMETIC_ROWS(TESSERA_ROW_2)
  TESSERA_ORDER_ROWS(TESSERA_ROW_2)
  TESSERA_LOGIC_ROWS(TESSERA_ROW_2)
  TESSERA_ACTIVATION_BACKWARD_ROWS(TESSERA_ROW_2)
  TESSERA_ORDER_ROWS(TESSERA_ORDER)
  TESSERA_ARITHMETIC_ROWS(TESSERA_TYPES)
  TESSERA_ARITHMETIC_NUMBER_ROWS(TESSERA_NUMBER)
  rows.push_back(
      {"clamp", kFloats | kIntegers, 1, {Attributes(ClampAttributes{-1, 1.5}), Attributes(ClampAttributes{0, 2})}});
  rows.push_back({"where_scalar", kAll | kFirstIsMask, 2, {number(0.25)}});
  rows.push_back({"where", kAll | kFirstIsMask, 3});
  rows.push_back({"lerp", kFloats, 3});
  rows.push_back({"lerp_scalar", kFloats, 2, {number(0.25)}});
  rows.push_back({"addcmul", kFloats | kIntegers, 3, {number(2)}});
  rows.push_back({"addcdiv", kFloats, 3, {number(0.5)}});
  return rows;
}

bool takes(const Row& row, DType dtype) {
  if (is_floating(dtype)) return (row.types & kFloats) != 0;
  if (dtype == DType::kBool) return (row.types & (kBools | kIntegersAsFloats)) != 0;
  return (row.types & (kIntegers | kIntegersAsFloats)) != 0;
}

class PointwiseOnCuda : public testing::OnCuda {
 protected:
  Tensor values(const Shape& shape, DType dtype, bool strided = false) {
    testing::Array array(shape);
    for (double& value : array.values) {
      const double any = static_cast<double>(random_() % 6001) / 1000 - 3;
      value = is_floating(dtype) ? any : dtype == DType::kU8 ? std::abs(std::trunc(2 * any)) : std::trunc(2 * any);
      if (dtype == DType::kBool) value = static_cast<double>(random_() % 2);
    }
    return testing::to_tensor(array, dtype, strided);
  }
  Tensor bits(const Shape& shape, DType dtype) {
    Tensor x = Tensor::allocate(shape, dtype, device::Device::get("host"));
    x.device().synchronize();
    for (std::size_t i = 0; i < x.nbytes(); ++i) x.data()[i] = static_cast<std::byte>(random_() >> 24);
    return x;
  }
  // The arguments of a row: a mask if it takes one, then values.
  std::vector<Tensor> arguments(const Row& row, const std::vector<Shape>& shapes, DType dtype, bool strided) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < row.tensors; ++i) {
      const bool is_mask = i == 0 && (row.types & kFirstIsMask) != 0;
      inputs.push_back(values(shapes[static_cast<std::size_t>(i)], is_mask ? DType::kBool : dtype, strided));
    }
    return inputs;
  }

  // Calls on both devices and compares. The views of the device have the strides of the host.
  void compare(const Row& row, const std::vector<Tensor>& inputs, double tolerance) {
    for (const Attributes& attributes : row.attributes) {
      std::vector<Tensor> moved;
      for (const Tensor& input : inputs) moved.push_back(testing::on_device(input, gpu_));
      const Tensor want = run(row, inputs, attributes);
      const Tensor got = here(run(row, moved, attributes));
      want.device().synchronize();
      SCOPED_TRACE(tessera::detail::concat(row.name, " of ", describe(inputs[0]), ", ", describe(inputs.back())));
      expect_equal(got, want, is_floating(want.dtype()) ? tolerance : 0);
      if (HasFatalFailure()) return;
    }
  }

  // Relative to max(1, abs(want)). Nans are equal, and so are infinities of one sign.
  static void expect_equal(const Tensor& got, const Tensor& want, double tolerance) {
    ASSERT_EQ(got.shape(), want.shape());
    ASSERT_EQ(got.dtype(), want.dtype());
    const testing::Array a = testing::to_array(got);
    const testing::Array b = testing::to_array(want);
    for (std::size_t i = 0; i < b.values.size(); ++i) {
      const double x = a.values[i];
      const double y = b.values[i];
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ASSERT_LE(std::abs(x - y), tolerance * std::max(1.0, std::abs(y)))
          << "element " << i << ": " << x << ", not " << y;
    }
  }

  std::mt19937_64 random_{17};
};

double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-12 : dtype == DType::kBF16 ? 1.0 / 128 : dtype == DType::kF16 ? 1.0 / 1024 : 4e-6;
}

// More than one tile of every kernel, and tails of every kind.
TEST_F(PointwiseOnCuda, EveryRowInEveryDtypeAndSize) {
  for (const Row& row : all_rows()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI64, DType::kI32,
                              DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
      if (!takes(row, dtype)) continue;
      for (const std::int64_t size : {1, 7, 1000, 4099, 40000}) {
        compare(row, arguments(row, {{size}, {size}, {size}}, dtype, false), tolerance_of(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(PointwiseOnCuda, EveryRowBroadcastAndStrided) {
  const std::vector<std::vector<Shape>> shapes = {{{33, 64}, {64}, {33, 64}}, {{33, 64}, {33, 1}, {64}},
                                                  {{5, 7, 9}, {7, 1}, {9}},   {{65, 12}, {65, 12}, {1}},
                                                  {{4096}, {1}, {4096}},      {{1}, {4096}, {1}}};
  for (const Row& row : all_rows()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI64, DType::kBool}) {
      if (!takes(row, dtype)) continue;
      for (const auto& each : shapes) {
        for (const bool strided : {false, true}) {
          compare(row, arguments(row, each, dtype, strided), tolerance_of(dtype));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(PointwiseOnCuda, EveryRowOfMixedDtypes) {
  const DType mixes[][2] = {{DType::kF32, DType::kBF16}, {DType::kBF16, DType::kF32},  {DType::kF16, DType::kF32},
                            {DType::kI32, DType::kF32},  {DType::kBF16, DType::kBool}, {DType::kF64, DType::kF32},
                            {DType::kU8, DType::kI32}};
  for (const Row& row : all_rows()) {
    if (row.tensors < 2) continue;
    for (const auto& mix : mixes) {
      if (!takes(row, mix[0]) || !takes(row, mix[1])) continue;
      for (const std::int64_t size : {4096, 4099}) {
        std::vector<Tensor> inputs = arguments(row, {{size}, {size}, {size}}, mix[0], false);
        inputs.back() = values({size}, mix[1]);
        compare(row, inputs, 1.0 / 128);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The results that IEEE arithmetic defines, also for nans, infinities and subnormal numbers.
TEST_F(PointwiseOnCuda, ArithmeticOfArbitraryBitsGivesTheBitsOfTheHost) {
  const std::vector<std::string> exact = {
      "neg",        "abs",     "sign",        "sqrt",        "rsqrt",    "reciprocal", "square",
      "floor",      "ceil",    "round",       "relu",        "add",      "sub",        "mul",
      "div",        "minimum", "maximum",     "eq",          "ne",       "lt",         "le",
      "gt",         "ge",      "logical_and", "isnan",       "isfinite", "add_scalar", "rdiv_scalar",
      "mul_scalar", "clamp",   "logical_xor", "logical_not", "remainder"};
  for (const Row& row : all_rows()) {
    if (std::ranges::find(exact, row.name) == exact.end()) continue;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      std::vector<Tensor> inputs;
      for (int i = 0; i < row.tensors; ++i) inputs.push_back(bits({20003}, dtype));
      compare(row, inputs, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PointwiseOnCuda, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0,  -0.0, 1,    -1,   inf,   -inf, std::nan(""), 1e-40, -1e-40, 88.5,  -88.5,
                                       90,   -90,  104,  -104, 1000,  -1e3, 1e30,         -1e30, 3e38,   -3e38, 14.5,
                                       5.25, -9.5, 1e-5, 0.5,  -0.25, 2,    1e5,          -1e6,  1e-20,  15,    -15};
  const auto count = static_cast<std::int64_t>(special.size());
  testing::Array across(Shape({count, count}));
  testing::Array down(Shape({count, count}));
  for (std::size_t i = 0; i < across.values.size(); ++i) {
    across.values[i] = special[i % special.size()];
    down.values[i] = special[i / special.size()];
  }
  for (const Row& row : all_rows()) {
    if ((row.types & kFirstIsMask) != 0 || row.tensors > 2) continue;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      std::vector<Tensor> inputs = {testing::to_tensor(across, dtype)};
      if (row.tensors == 2) inputs.push_back(testing::to_tensor(down, dtype));
      compare(row, inputs, tolerance_of(dtype));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PointwiseOnCuda, ComplexNumbers) {
  const auto complex = [this](std::int64_t size) {
    const Tensor parts = values({2 * size}, DType::kF32);
    return parts.reinterpreted(DType::kC64, {size}, Strides({1}), 0);
  };
  const auto compare_complex = [this](const Row& row, const std::vector<Tensor>& inputs, const Attributes& attributes) {
    std::vector<Tensor> moved;
    for (const Tensor& input : inputs) moved.push_back(there(input));
    const Tensor want = run(row, inputs, attributes);
    const Tensor got = here(run(row, moved, attributes));
    want.device().synchronize();
    if (!is_complex(want.dtype())) return expect_equal(got, want, 2e-5);
    for (std::int64_t i = 0; i < want.numel(); ++i) {
      const auto x = got.data_as<std::complex<float>>()[i];
      const auto y = want.data_as<std::complex<float>>()[i];
      ASSERT_LE(std::abs(x - y), 5e-5F * std::max(1.0F, std::abs(y))) << "element " << i << ": " << x << ", not " << y;
    }
  };
  for (const Row& row : all_rows()) {
    if ((row.types & kComplex) == 0 || (row.types & kFirstIsMask) != 0) continue;
    for (const std::int64_t size : {5003, 5004}) {
      std::vector<Tensor> inputs;
      for (int i = 0; i < row.tensors; ++i) inputs.push_back(complex(size));
      for (const Attributes& attributes : row.attributes) {
        SCOPED_TRACE(row.name);
        compare_complex(row, inputs, attributes);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(PointwiseOnCuda, WritesInPlaceAndToGivenTensors) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor x = values({10007}, dtype);
    const Tensor y = values({10007}, dtype);
    const Tensor x_there = there(x);
    exp_(x_there);
    maximum_(x_there, there(y));
    expect_near(here(x_there), maximum(exp(x), y), tolerance_of(dtype));
    const Tensor out = there(values({10007}, dtype).as_strided({10006}, Strides({1}), 1));  // not aligned
    const auto tail = [](const Tensor& t) { return t.as_strided({10006}, Strides({1}), 1); };
    gelu(tail(there(x)), {.out = out});
    expect_near(here(out), gelu(tail(x)), tolerance_of(dtype));
  }
}

TEST_F(PointwiseOnCuda, ReplaysTheSameBits) {
  const Tensor x = there(values({50001}, DType::kBF16));
  const Tensor mask = there(values({50001}, DType::kBool));
  const Tensor out = there(values({50001}, DType::kBF16));
  const Tensor want = here(where(mask, silu(gelu(x)), 0.5));
  const memory::CapturedGraph graph = captured([&] { copy_(out, where(mask, silu(gelu(x)), 0.5)); });
  for (int i = 0; i < 20; ++i) {
    graph.replay(stream());
    testing::expect_same_bits(here(out), want);
    if (HasFatalFailure()) return;
  }
}

TEST_F(PointwiseOnCuda, MaskedFillOfEveryItemSize) {
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    for (const Shape& mask_shape : {Shape({33, 64}), Shape({64}), Shape({33, 1}), Shape()}) {
      for (const bool strided : {false, true}) {
        const bool is_pair = is_complex(dtype);
        const Tensor x = is_pair ? bits({33, 64}, dtype) : values({33, 64}, dtype, strided);
        const Tensor mask = values(mask_shape, DType::kBool, strided);
        const Tensor want = masked_fill(x, mask, 3);
        testing::expect_same_bits(here(masked_fill(testing::on_device(x, gpu_), testing::on_device(mask, gpu_), 3)),
                                  contiguous(want));
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::ops
