// Tests that an invalid call throws InvalidArgument with the name of the operator and the call with its shapes. Covers
// all operators, with each invalid variation of their samples. Calls that an operator accepts must run. Then tests the
// messages per family.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "tessera/device/host/host_device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/sample_memory.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tessera::detail::concat;

constexpr DType kStored[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kU16, DType::kU32, DType::kU64, DType::kC128};

// A call that can be made invalid.
struct Subject {
  const OpCaseInfo& info;
  OpSample sample;
  std::vector<Tensor> inputs = {};
  std::vector<Tensor> outputs = {};

  Subject(const OpCaseInfo& of, OpSample which) : info(of), sample(std::move(which)) {
    for (const SampleInput& input : sample.inputs) {
      inputs.push_back(input.is_absent ? Tensor() : to_tensor(input.value, dtype_in(input, DType::kF32)));
    }
    outputs.resize(static_cast<std::size_t>(sample.outputs));
  }
  [[nodiscard]] tensor::Operator op() const { return tensor::find_op(info.op); }
  [[nodiscard]] tensor::Call call() { return {op(), inputs, sample.attributes.ref(), outputs}; }
};

// Returns all operators, each with a sample that has the maximum number of arguments, none of them empty.
std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const OpCaseInfo& info : all_cases()) {
    if (!info.samples) continue;
    Random random(7);
    const OpSample* best = nullptr;
    std::int64_t most = -1;
    const auto samples = info.samples(random);
    for (const OpSample& sample : samples) {
      std::int64_t score = 0;
      for (const SampleInput& input : sample.inputs)
        score += input.is_absent ? 0 : input.value.shape.is_empty() ? -9 : 1;
      if (score > most) best = &sample;
      most = std::max(most, score);
    }
    all.emplace_back(info, *best);
  }
  return all;
}

enum class Outcome { kTaken, kRefused };

// Makes the call and waits. An error must be an InvalidArgument that names the operator. With `shows_call` it must also
// show the call, as errors from before the work runs do.
Outcome outcome_of(const Subject& subject, const std::function<void()>& body, bool shows_call = true) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    const std::string& name = subject.op()->function;
    EXPECT_NE(text.find(name + ":"), std::string::npos) << "does not name the operator: " << text;
    if (shows_call) {
      EXPECT_NE(text.find("called as " + name + "("), std::string::npos) << "does not show the call: " << text;
    }
    return Outcome::kRefused;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return Outcome::kRefused;
  }
  try {
    device::Device::get("host").synchronize();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(subject.op()->function + ":"), std::string::npos)
        << "does not name the operator: " << error.what();
    tensor::current_stream(device::Device::get("host")).reset_error();
    return Outcome::kRefused;
  }
  return Outcome::kTaken;
}

Outcome outcome_of(Subject& subject) {
  return outcome_of(subject, [&] { tensor::call_into(subject.call()); });
}

// Runs `body`, which throws, and searches for a word before the call in the message.
void expect_said(const std::function<void()>& body, std::string_view word) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string said = text.substr(0, text.find("; called as"));
    EXPECT_NE(said.find(word), std::string::npos) << "does not say \"" << word << "\": " << text;
    throw;
  }
}

TEST(Errors, OfTooManyOrTooFewTensorsNameTheCall) {
  for (Subject& subject : subjects()) {
    SCOPED_TRACE(subject.info.op);
    if (subject.op()->input_lists > 0) continue;
    const std::vector<Tensor> right = subject.inputs;
    subject.inputs.push_back(to_tensor(Array(Shape({2}), 1), DType::kF32));
    EXPECT_EQ(outcome_of(subject), Outcome::kRefused);
    if (right.empty()) continue;
    subject.inputs.assign(right.begin(), right.end() - 1);
    EXPECT_EQ(outcome_of(subject), Outcome::kRefused);
  }
}

TEST(Errors, OfAnArgumentLeftOutNameIt) {
  for (Subject& subject : subjects()) {
    SCOPED_TRACE(subject.info.op);
    if (subject.op()->input_lists > 0) continue;
    for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
      if (subject.op()->inputs[i].is_optional) continue;
      Subject spoilt = subject;
      spoilt.inputs[i] = {};
      EXPECT_EQ(outcome_of(spoilt), Outcome::kRefused) << subject.op()->inputs[i].name;
    }
  }
}

// Returns shapes near the valid one: each dimension slightly larger, one more dimension, one less.
std::vector<Shape> near(const Shape& shape) {
  std::vector<Shape> all;
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  for (std::int64_t& size : sizes) {
    ++size;
    all.emplace_back(std::span<const std::int64_t>(sizes));
    --size;
  }
  if (!sizes.empty()) all.emplace_back(std::span<const std::int64_t>(sizes).subspan(1));
  sizes.insert(sizes.begin(), 2);
  all.emplace_back(std::span<const std::int64_t>(sizes));
  return all;
}

// Returns a tensor of this shape. Values are arbitrary, but indices remain indices.
Tensor reshaped(const SampleInput& input, const Shape& shape) {
  Array value(shape);
  for (std::size_t i = 0; i < value.values.size() && !input.value.values.empty(); ++i) {
    value.values[i] = input.value.values[i % input.value.values.size()];
  }
  return to_tensor(value, dtype_in(input, DType::kF32));
}

// Returns for example "gather index".
std::string argument_text(const Subject& subject, std::size_t i) {
  return concat(subject.info.op, " ", subject.op()->inputs[i].name);
}

TEST(Errors, OfShapesThatDoNotFitNameTheCall) {
  std::set<std::string> any;  // optional arguments that may have any shape
  for (Subject& subject : subjects()) {
    for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
      if (!subject.inputs[i]) continue;
      bool is_refused = false;
      for (const Shape& shape : near(subject.inputs[i].shape())) {
        Subject spoilt = subject;
        spoilt.inputs[i] = reshaped(subject.sample.inputs[i], shape);
        SCOPED_TRACE(spoilt.call().text());
        is_refused |= outcome_of(spoilt) == Outcome::kRefused;
      }
      const bool is_alone = subject.inputs.size() == 1 || subject.op()->input_lists == 1;
      if (!is_refused && !is_alone) any.insert(argument_text(subject, i));
    }
  }
  EXPECT_EQ(any, std::set<std::string>({"embedding index", "index_select index"}));
}

// Returns a tensor of zeros or small numbers of any dtype, including complex dtypes.
Tensor with_dtype(const SampleInput& input, DType dtype) {
  if (!is_complex(dtype)) return to_tensor(input.value, dtype);
  Tensor zeros = Tensor::allocate(input.value.shape, dtype, device::Device::get("host"));
  zeros.device().synchronize();
  std::memset(zeros.storage().data(), 0, zeros.nbytes());
  return zeros;
}

TEST(Errors, OfDTypesThatDoNotFitNameTheCall) {
  // These operators copy elements and accept all dtypes for them.
  const std::set<std::string> movers = {
      "cast x",         "copy x", "embedding weight", "expand x",  "flip x", "gather x",
      "index_select x", "pad x",  "masked_fill x",    "permute x", "roll x", "select x",
      "slice x",        "tril x", "triu x",           "unslice x", "view x", "index_sum like"};
  // Indices may have any integer dtype.
  const std::set<std::string> indices = {"embedding index",    "gather index",      "index_add index",
                                         "index_select index", "index_sum index",   "one_hot index",
                                         "scatter index",      "scatter_add index", "scatter_sum index"};
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2, DType::kU16, DType::kU32, DType::kU64, DType::kC128,
                            DType::kC64, DType::kBool, DType::kI64, DType::kI8, DType::kF64, DType::kF16}) {
    std::set<std::string> taken;
    for (Subject& subject : subjects()) {
      for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
        if (!subject.inputs[i]) continue;
        Subject spoilt = subject;
        spoilt.inputs[i] = with_dtype(subject.sample.inputs[i], dtype);
        SCOPED_TRACE(spoilt.call().text());
        const bool is_list = subject.op()->input_lists > 0;
        if (outcome_of(spoilt) == Outcome::kTaken) taken.insert(is_list ? subject.info.op : argument_text(subject, i));
      }
    }
    if (std::ranges::count(kStored, dtype) == 0) continue;
    std::set<std::string> takers = movers;
    if (is_integral(dtype)) takers.insert(indices.begin(), indices.end());
    EXPECT_EQ(taken, takers) << to_string(dtype);
  }
}

TEST(Errors, OfTensorsOnTwoDevicesNameBoth) {
  const device::Device there = device::host::make_host_device({.name = "there"});
  for (Subject& subject : subjects()) {
    SCOPED_TRACE(subject.info.op);
    std::size_t first = subject.inputs.size();
    for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
      if (!subject.inputs[i]) continue;
      if (first == subject.inputs.size()) {
        first = i;
        continue;
      }
      Subject spoilt = subject;
      spoilt.inputs[i] = Tensor::allocate(subject.inputs[i].shape(), subject.inputs[i].dtype(), there);
      EXPECT_EQ(outcome_of(spoilt), Outcome::kRefused) << i;
    }
    if (subject.op()->def.view != nullptr || first == subject.inputs.size()) continue;
    tensor::call_into(subject.call());
    for (Tensor& out : subject.outputs) out = Tensor::allocate(out.shape(), out.dtype(), there);
    EXPECT_EQ(outcome_of(subject), Outcome::kRefused) << "results elsewhere";
  }
}

TEST(Errors, OfResultsThatDoNotFitNameTheCall) {
  for (Subject& subject : subjects()) {
    SCOPED_TRACE(subject.info.op);
    call_sample(subject.info, subject.sample, device::Device::get("host"), subject.inputs, subject.outputs);
    const std::vector<Tensor> right = subject.outputs;
    for (std::size_t i = 0; i < right.size(); ++i) {
      const auto spoil = [&](const Shape& shape, DType dtype) {
        subject.outputs = right;
        subject.outputs[i] = Tensor::allocate(shape, dtype, device::Device::get("host"));
        EXPECT_EQ(outcome_of(subject), Outcome::kRefused) << i;
      };
      std::vector<std::int64_t> sizes(right[i].shape().begin(), right[i].shape().end());
      sizes.push_back(2);
      spoil(Shape(std::span<const std::int64_t>(sizes)), right[i].dtype());
      spoil(right[i].shape(), right[i].dtype() == DType::kI16 ? DType::kI8 : DType::kI16);
    }
  }
}

// An operator with invalid attributes, and the expected message.
struct WrongAttributes {
  const char* op;
  Attributes attributes;
  const char* says;
  const char* also = "";
};

RandomAttributes drawn(const Shape& shape, const Scalar& a, const Scalar& b) {
  RandomAttributes attributes;
  attributes.shape = shape;
  attributes.a = a;
  attributes.b = b;
  return attributes;
}

std::vector<WrongAttributes> wrong_dims() {
  std::vector<WrongAttributes> rows;
  for (const char* op : {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"}) {
    rows.push_back({op, Attributes(SoftmaxAttributes{7}), "dimension must be in [-2, 2), got 7"});
  }
  for (const char* op : {"prod", "amax", "amin", "any", "all", "logsumexp"}) {
    rows.push_back({op, Attributes(ReduceAttributes{{9}, false}), "dimension must be in [-2, 2), got 9"});
    rows.push_back({op, Attributes(ReduceAttributes{{1, -1}, false}), "twice"});
  }
  for (const char* op : {"argmax", "argmin"}) {
    rows.push_back({op, Attributes(ArgAttributes{-3, false}), "dimension must be in [-2, 2), got -3"});
  }
  for (const char* op : {"gather", "scatter_add"}) {
    rows.push_back({op, Attributes(IndexAttributes{9}), "dimension must be in [", "), got 9"});
  }
  for (const char* op : {"index_select", "index_add"}) {
    rows.push_back({op, Attributes(IndexSliceAttributes{.dim = 9}), "dimension must be in [", "), got 9"});
  }
  for (const char* op : {"tril", "triu"}) {
    rows.push_back({op, Attributes(TriangleAttributes{0, {.offset = 0, .block = 2, .levels = {}}, {}}), "map"});
  }
  return rows;
}

std::vector<WrongAttributes> wrong_reductions() {
  return {{"sum", Attributes(SumAttributes{{9}, false, DType::kF32}), "dimension must be in [-2, 2), got 9"},
          {"sum", Attributes(SumAttributes{{0}, false, DType::kF8E4M3}), "f8e4m3"},
          {"mean", Attributes(MeanAttributes{{-3}, false, -1}), "dimension must be in [-2, 2), got -3"},
          {"var", Attributes(VarAttributes{{9}, false, 1}), "dimension must be in [-2, 2), got 9"},
          {"deviation", Attributes(DeviationAttributes{{9}}), "dimension must be in [-2, 2), got 9"},
          {"norm", Attributes(PNormAttributes{2, {9}, false}), "dimension must be in [-2, 2), got 9"},
          {"cumsum", Attributes(CumsumAttributes{9}), "dimension must be in [-2, 2), got 9"},
          {"histc", Attributes(HistcAttributes{0, 0, 1}), "bins must be at least 1, got 0"},
          {"histc", Attributes(HistcAttributes{4, 2, 1}), "got low 2 and high 1"}};
}

std::vector<WrongAttributes> wrong_places() {
  return {{"view", Attributes(ViewAttributes{{4, 5}}), "[4, 5]"},
          {"permute", Attributes(PermuteAttributes{{0, 0, 1}}), "twice"},
          {"permute", Attributes(PermuteAttributes{{0}}), "1"},
          {"permute", Attributes(PermuteAttributes{{0, 1, 9}}), "dimension must be in [-3, 3), got 9"},
          {"expand", Attributes(ExpandAttributes{{7, 7}}), "[7, 7]"},
          {"slice", Attributes(SliceAttributes{9, 0, 1, 1}), "dimension must be in [-2, 2), got 9"},
          {"slice", Attributes(SliceAttributes{0, 0, 1, 0}), "step must be at least 1, got 0"},
          {"select", Attributes(SelectAttributes{9, 0}), "dimension must be in [-2, 2), got 9"},
          {"select", Attributes(SelectAttributes{0, 99}), "99"},
          {"cat", Attributes(CatAttributes{9}), "dimension must be in [-3, 3), got 9"},
          {"flip", Attributes(FlipAttributes{{9}}), "dimension must be in [-2, 2), got 9"},
          {"flip", Attributes(FlipAttributes{{0, 0}}), "twice"},
          {"roll", Attributes(RollAttributes{{1}, {9}}), "dimension must be in [-2, 2), got 9"},
          {"roll", Attributes(RollAttributes{{1, 2}, {0}}), "2"},
          {"pad", Attributes(PadAttributes{{1}, {1}, 0}), "1"},
          {"pad", Attributes(PadAttributes{{0, -9}, {0, 0}, 0}), "-9"},
          {"unslice", Attributes(UnsliceAttributes{9, 7, 1, 2}), "dimension must be in [-2, 2), got 9"},
          {"unslice", Attributes(UnsliceAttributes{1, 4, 1, 2}), "4"},
          {"scatter", Attributes(ScatterAttributes{9, 0}), "dimension must be in [", "), got 9"},
          {"scatter_sum", Attributes(IndexSumAttributes{9, 4, {}}), "dimension must be in [", "), got 9"},
          {"scatter_sum", Attributes(IndexSumAttributes{1, -4, {}}), "-4"},
          {"index_sum", Attributes(IndexSumAttributes{9, 4, {}}), "dimension must be in [", "), got 9"},
          {"index_sum", Attributes(IndexSumAttributes{0, -4, {}}), "-4"},
          {"one_hot", Attributes(OneHotAttributes{-1, {}}), "-1"},
          {"topk", Attributes(TopkAttributes{99, -1, true}), "99"},
          {"topk", Attributes(TopkAttributes{-1, -1, true}), "-1"},
          {"topk", Attributes(TopkAttributes{1, 9, true}), "dimension must be in [", "), got 9"},
          {"sort", Attributes(SortAttributes{9, false}), "dimension must be in [", "), got 9"}};
}

std::vector<WrongAttributes> wrong_others() {
  RandomAttributes narrow = drawn({3}, 0, 1);
  narrow.low = 5;
  narrow.high = 6;
  return {{"contract", Attributes(ContractAttributes{"ik,kj"}), "ik,kj"},
          {"contract", Attributes(ContractAttributes{"ijk,kj->i"}), "ijk"},
          {"contract", Attributes(ContractAttributes{"ik,kj->ijz"}), "'z'"},
          {"rope", Attributes(RopeAttributes{.width = 3}), "3"},
          {"rope", Attributes(RopeAttributes{.width = 10}), "10"},
          {"rope", Attributes(RopeAttributes{.dim = 9}), "dimension must be in [", "), got 9"},
          {"scaled_dot_product_attention", Attributes(AttentionBias{.scale = -1}), "scale must be at least 0, got -1"},
          {"cross_entropy", Attributes(CrossEntropyAttributes{.label_smoothing = 2}),
           "label_smoothing must be in [0, 1], got 2"},
          {"cross_entropy", Attributes(CrossEntropyAttributes{.reduction = "max"}), "'max'"},
          {"linear_cross_entropy", Attributes(CrossEntropyAttributes{.reduction = "max"}), "'max'"},
          {"linear_cross_entropy_with_gradients", Attributes(CrossEntropyAttributes{.reduction = "none"}), "one loss"},
          {"eye", Attributes(EyeAttributes{{3}, DType::kF32, {}}), "[3]"},
          {"bernoulli", Attributes(drawn({3}, 1.5, 1)), "probability must be in [0, 1], got 1.5"},
          {"randint", Attributes(drawn({3}, 4, 4)), "got low 4 and high 4"},
          {"randperm", Attributes(drawn({3, 3}, 3, 1)), "[3, 3]"},
          {"trunc_normal", Attributes(narrow), "must hold at least 5% of the distribution"},
          {"trunc_normal", Attributes(drawn({3}, 0, -1)), "standard deviation must be positive, got -1"}};
}

TEST(Errors, OfAttributesNameTheOperatorTheValueAndTheCall) {
  std::map<std::string, Subject> by_name;
  for (const Subject& subject : subjects()) by_name.emplace(subject.info.op, subject);
  for (const auto& rows : {wrong_dims(), wrong_reductions(), wrong_places(), wrong_others()}) {
    for (const WrongAttributes& row : rows) {
      Subject subject = by_name.at(row.op);
      subject.sample.attributes = row.attributes;
      SCOPED_TRACE(subject.call().text());
      const auto body = [&] {
        call_sample(subject.info, subject.sample, device::Device::get("host"), subject.inputs, subject.outputs);
      };
      EXPECT_EQ(outcome_of(subject, [&] { expect_said([&] { expect_said(body, row.says); }, row.also); }),
                Outcome::kRefused);
    }
  }
}

// Indices are checked when the work runs; the error waits on the stream.
TEST(Errors, OfIndicesOutOfRangeNameOperatorIndexAndRange) {
  std::set<std::string> with_indices;
  for (const Subject& subject : subjects()) {
    for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
      if (subject.op()->input_lists > 0) continue;
      const std::string& name = subject.op()->inputs[i].name;
      if (name != "index" && name != "targets") continue;
      if (subject.info.op == "count_targets") continue;  // accepts any targets
      with_indices.insert(subject.info.op);
      for (const double wrong : {1000.0, -1.0}) {
        Subject spoilt = subject;
        Array value = subject.sample.inputs[i].value;
        value.values.back() = wrong;
        spoilt.inputs[i] = to_tensor(value, subject.inputs[i].dtype());
        SCOPED_TRACE(spoilt.call().text());
        tensor::call_into(spoilt.call());
        const auto wait = [] { device::Device::get("host").synchronize(); };
        const char* const range = name == "index" ? "index must be in [0, " : "target must be in [0, ";
        const auto body = [&] { expect_said(wait, range); };
        EXPECT_EQ(outcome_of(
                      spoilt, [&] { expect_said(body, concat("got ", wrong)); }, false),
                  Outcome::kRefused);
        tensor::current_stream(device::Device::get("host")).reset_error();
      }
    }
  }
  EXPECT_EQ(with_indices, std::set<std::string>({"cross_entropy", "cross_entropy_backward", "embedding", "gather",
                                                 "index_add", "index_select", "index_sum", "linear_cross_entropy",
                                                 "linear_cross_entropy_backward", "linear_cross_entropy_with_gradients",
                                                 "one_hot", "scatter", "scatter_add", "scatter_sum"}));
}

}  // namespace
}  // namespace tessera::ops::testing
