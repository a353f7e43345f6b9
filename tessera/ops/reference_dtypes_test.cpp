// Runs every operator with integers, bool and storage-only dtypes. It must match plain loops exactly, or reject the
// dtype with an error that names the operator and the call. This file lists the operators that reject each dtype, so
// that changes are noticed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/testing/reference.h"
#include "tessera/ops/testing/sample_memory.h"

namespace tessera::ops::testing {
namespace {

using tessera::detail::concat;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kIntegers[] = {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8};
constexpr DType kStored[] = {DType::kU16, DType::kU32, DType::kU64, DType::kF8E4M3, DType::kF8E5M2};

// Rounds a floating sample to small integers. Nonzero values stay nonzero, so that divisors remain valid.
double whole_of(double value, DType dtype) {
  if (dtype == DType::kBool) return value > 0 ? 1 : 0;
  const double size = std::min(std::ceil(std::abs(value) * 2), 8.0);
  return is_signed(dtype) && value < 0 ? -size : size;
}

OpSample with_wholes(const OpCaseInfo& info, OpSample sample, DType dtype) {
  for (SampleInput& input : sample.inputs) {
    if (input.is_absent || input.dtype) continue;
    std::size_t i = 0;
    for (double& value : input.value.values) {
      value = whole_of(value, dtype);
      if (info.op == "prod" && ++i % 13 != 0) value = std::copysign(std::min(std::abs(value), 1.0), value);
    }
    input.dtype = dtype;
  }
  return sample;
}

template <class T>
double converted(double value) {
  if (std::isnan(value)) return 0;
  if (value != std::trunc(value) && value < static_cast<double>(std::numeric_limits<T>::min())) return 0;
  if (std::isinf(value)) {
    return static_cast<double>(value < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max());
  }
  return static_cast<double>(static_cast<T>(static_cast<std::int64_t>(value)));
}

// Converts a number of the reference to the dtype of the result. Integers wrap; fractions given as numbers round
// towards zero and saturate; the identity of an empty reduction is the least or greatest value.
double in_result(double value, DType dtype) {
  switch (dtype) {
    case DType::kI64: return converted<std::int64_t>(value);
    case DType::kI32: return converted<std::int32_t>(value);
    case DType::kI16: return converted<std::int16_t>(value);
    case DType::kI8: return converted<std::int8_t>(value);
    case DType::kU8: return converted<std::uint8_t>(value);
    case DType::kU16: return converted<std::uint16_t>(value);
    case DType::kU32: return converted<std::uint32_t>(value);
    case DType::kU64: return converted<std::uint64_t>(value);
    case DType::kBool: return value != 0 && value != -kInf ? 1 : 0;
    default: return value;
  }
}

void expect_right(const OpCaseInfo& info, const OpSample& sample, bool strided) {
  std::vector<Tensor> inputs;
  for (const SampleInput& input : sample.inputs) {
    inputs.push_back(input.is_absent ? Tensor() : to_tensor(input.value, *input.dtype, strided));
  }
  std::vector<Tensor> outputs(static_cast<std::size_t>(sample.outputs));
  call_sample(info, sample, device::Device::get("host"), inputs, outputs);
  auto want = info.reference(reference_inputs(sample, DType::kF32), sample.attributes.ref());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const DType dtype = outputs[i].dtype();
    for (double& value : want[i].values) value = in_result(value, dtype);
    const double tolerance = is_floating(dtype) ? tolerance_in(dtype, info.tolerance) : 0;
    EXPECT_EQ(difference(to_array(outputs[i]), want[i], tolerance), "") << "in " << to_string(dtype);
  }
}

// Returns true if the operator accepts the sample. An error must name the operator, the dtype and the call.
bool is_taken(const OpCaseInfo& info, const OpSample& sample, DType dtype) {
  std::vector<Tensor> inputs;
  for (const SampleInput& input : sample.inputs) {
    inputs.push_back(input.is_absent ? Tensor() : to_tensor(input.value, *input.dtype));
  }
  return testing::is_taken(info, sample, inputs, to_string(dtype));
}

bool has_floating(const OpSample& sample) {
  bool has = false;
  for (const SampleInput& input : sample.inputs) has |= !input.is_absent && !input.dtype;
  return has;
}

// Returns the operators with floating samples that reject a dtype. Compares all others with their reference.
std::set<std::string> refusing(DType dtype) {
  std::set<std::string> refused;
  for (const OpCaseInfo& info : all_cases()) {
    if (!info.reference) continue;
    Random random(7);
    for (const OpSample& floating : info.samples(random)) {
      if (!has_floating(floating)) continue;
      const OpSample sample = with_wholes(info, floating, dtype);
      SCOPED_TRACE(text_of(info, sample));
      if (!is_taken(info, sample, dtype)) {
        refused.insert(info.op);
        break;
      }
      for (const bool strided : {false, true}) expect_right(info, sample, strided);
    }
  }
  return refused;
}

// Operators whose results are not integers and that have no separate rule for integers.
const std::set<std::string> kFloatingOnly = {"adamw",
                                             "cross_entropy",
                                             "cross_entropy_backward",
                                             "deviation",
                                             "foreach_add",
                                             "foreach_mul",
                                             "foreach_norm",
                                             "grad_norm",
                                             "layer_norm",
                                             "layer_norm_backward",
                                             "lerp",
                                             "linear_cross_entropy",
                                             "linear_cross_entropy_backward",
                                             "linear_cross_entropy_with_gradients",
                                             "lion",
                                             "log_softmax",
                                             "log_softmax_backward",
                                             "logsumexp",
                                             "mean",
                                             "norm",
                                             "paged_attention",
                                             "rms_norm",
                                             "rms_norm_backward",
                                             "rope",
                                             "scaled_dot_product_attention",
                                             "scaled_dot_product_attention_backward",
                                             "sgd",
                                             "sgd_momentum",
                                             "softmax",
                                             "softmax_backward",
                                             "var"};
// Operators that accept integers but whose arithmetic is not defined for bool.
const std::set<std::string> kNotOfBool = {"abs",          "bmm",    "ceil", "contract", "floor",
                                          "floor_divide", "linear", "mm",   "neg",      "pow",
                                          "remainder",    "round",  "sign", "square",   "sub"};
// Operators that copy elements and compute nothing accept storage-only dtypes.
const std::set<std::string> kMovers = {
    "cast",    "cat",  "copy",    "embedding", "expand", "flip", "gather", "index_select", "masked_fill", "pad",
    "permute", "roll", "scatter", "select",    "slice",  "tril", "triu",   "unslice",      "view"};

TEST(ReferenceDTypes, EveryOperatorIsRightInIntegersOrRefusesThem) {
  for (const DType dtype : kIntegers) EXPECT_EQ(refusing(dtype), kFloatingOnly) << to_string(dtype);
}

TEST(ReferenceDTypes, EveryOperatorIsRightInBoolOrRefusesIt) {
  std::set<std::string> want = kFloatingOnly;
  want.insert(kNotOfBool.begin(), kNotOfBool.end());
  EXPECT_EQ(refusing(DType::kBool), want);
}

TEST(ReferenceDTypes, WhatIsOnlyStoredIsMovedAndCastAndRefusedElsewhere) {
  std::set<std::string> want;
  for (const OpCaseInfo& info : all_cases()) {
    if (!info.reference) continue;
    Random random(7);
    const auto samples = info.samples(random);
    if (std::ranges::any_of(samples, has_floating) && !kMovers.contains(info.op)) want.insert(info.op);
  }
  for (const DType dtype : kStored) EXPECT_EQ(refusing(dtype), want) << to_string(dtype);
}

// With a tensor or number of another dtype, whatever the promoted dtype is.
TEST(ReferenceDTypes, WhatIsOnlyStoredIsRefusedBesideOthersToo) {
  const Tensor f32 = to_tensor(Array(Shape({2}), 1), DType::kF32);
  for (const DType dtype : kStored) {
    const Tensor stored = to_tensor(Array(Shape({2}), 1), dtype);
    const auto word = [&](const char* op) {
      return concat(op, ": dtype must be one that operators compute in, got ", dtype);
    };
    expect_error<InvalidArgument>([&] { (void)add(stored, f32); }, {word("add")});
    expect_error<InvalidArgument>([&] { (void)mul(f32, stored); }, {word("mul")});
    expect_error<InvalidArgument>([&] { (void)mul(stored, 0.5); }, {word("mul")});
    expect_error<InvalidArgument>([&] { (void)lt(f32, stored); }, {word("lt")});
    expect_error<InvalidArgument>([&] { (void)clamp(stored, 0.5, 1.0); }, {word("clamp")});
  }
}

TEST(ReferenceDTypes, NumbersThatNoOtherDTypeHoldsAreMovedExactly) {
  const Tensor x = Tensor::allocate(Shape({3}), DType::kU64, device::Device::get("host"));
  const std::vector<std::uint64_t> values = {UINT64_MAX, (std::uint64_t{1} << 63) + 1, 5};
  std::memcpy(x.data(), values.data(), 24);
  const Tensor index = to_tensor(Array(Shape({3}), std::vector<double>{2, 0, 1}), DType::kI64);
  const Tensor moved[] = {flip(x, {0}), index_select(x, 0, index), gather(x, 0, index), roll(x, {1}, {0})};
  const std::vector<std::vector<std::uint64_t>> want = {{values[2], values[1], values[0]},
                                                        {values[2], values[0], values[1]},
                                                        {values[2], values[0], values[1]},
                                                        {values[2], values[0], values[1]}};
  x.device().synchronize();
  for (std::size_t i = 0; i < std::size(moved); ++i) {
    const auto* at = moved[i].data_as<std::uint64_t>();
    EXPECT_EQ(std::vector<std::uint64_t>(at, at + 3), want[i]) << i;
  }
}

TEST(ReferenceDTypes, EveryPatternOfAnF8GoesThroughF32AndBack) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const Tensor x = Tensor::allocate(Shape({256}), dtype, device::Device::get("host"));
    for (int i = 0; i < 256; ++i) x.data()[i] = static_cast<std::byte>(i);
    const Tensor wide = cast(x, DType::kF32);
    const Tensor back = cast(wide, dtype);
    x.device().synchronize();
    for (int i = 0; i < 256; ++i) {
      const double value = read_element(x.data() + i, dtype);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(wide.data_as<float>()[i])) << i;
      } else {
        EXPECT_EQ(wide.data_as<float>()[i], value) << i;
        EXPECT_EQ(back.data()[i], x.data()[i]) << i;
      }
    }
  }
}

TEST(ReferenceDTypes, IndicesAreOfAnyIntegerDType) {
  const Tensor x = to_tensor(Array(Shape({3, 2}), std::vector<double>{0, 1, 2, 3, 4, 5}), DType::kF32);
  for (const DType dtype :
       {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    const Tensor index = to_tensor(Array(Shape({2}), std::vector<double>{2, 0}), dtype);
    const std::vector<double> rows = {4, 5, 0, 1};
    EXPECT_EQ(to_array(index_select(x, 0, index)).values, rows) << to_string(dtype);
    EXPECT_EQ(to_array(embedding(x, index)).values, rows) << to_string(dtype);
    EXPECT_EQ(to_array(one_hot(index, 3)).values, (std::vector<double>{0, 0, 1, 1, 0, 0})) << to_string(dtype);
  }
  // Values with the highest bit set.
  Array numbers(Shape({40000, 1}));
  std::iota(numbers.values.begin(), numbers.values.end(), 0);
  const Tensor table = to_tensor(numbers, DType::kF32);
  for (const auto& [dtype, at] : {std::pair(DType::kU8, 200.0), std::pair(DType::kU16, 39999.0)}) {
    EXPECT_EQ(to_array(embedding(table, to_tensor(Array(Shape({1}), at), dtype))).values, std::vector<double>{at});
  }
}

TEST(ReferenceDTypes, IndicesOfOtherDTypesAreRefused) {
  const Tensor x = to_tensor(Array(Shape({3, 2}), 1), DType::kF32);
  for (const DType dtype : {DType::kF32, DType::kBool}) {
    const Tensor index = to_tensor(Array(Shape({1}), 0), dtype);
    const std::string word = concat("index must have an integer dtype, got ", dtype);
    expect_error<InvalidArgument>([&] { (void)index_select(x, 0, index); }, {"index_select: ", word});
    expect_error<InvalidArgument>([&] { (void)embedding(x, index); }, {"embedding: ", word});
    expect_error<InvalidArgument>([&] { (void)one_hot(index, 3); }, {"one_hot: ", word});
  }
}

}  // namespace
}  // namespace tessera::ops::testing
