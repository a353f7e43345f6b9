// Compares random calls of operators with their references. A seed selects the operator, shapes, broadcasts and
// attributes (testing/derived_samples.h), a dtype for each floating argument, the memory order of each (contiguous,
// strided with gaps and reversed, expanded), and whether results are new tensors, given tensors or an argument.
// The arguments lie on the device that TESSERA_TEST_DEVICE names.
//   ops_operators_fuzz [--runs N] [--seed S] [--seconds T]
#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/ops/testing/derived_samples.h"
#include "tessera/ops/testing/sample_memory.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops::testing {
namespace {

using tessera::detail::concat;

constexpr DType kFloating[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};

device::Device host() { return device::Device::get("host"); }

// Returns a tensor as expand does: along one dimension, all elements are the first one.
Tensor expanded(Array& value, std::size_t dim, DType dtype, Random& random) {
  std::vector<std::int64_t> sizes(value.shape.begin(), value.shape.end());
  sizes[dim] = 1;
  Array small(shape_of(sizes));
  for (std::int64_t i = 0; i < value.shape.numel(); ++i) {
    auto index = digits(value.shape, i);
    index[dim] = 0;
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at = at * sizes[d] + index[d];
    double& first = small.values[static_cast<std::size_t>(at)];
    if (digits(value.shape, i)[dim] == 0) first = value.values[static_cast<std::size_t>(i)];
    value.values[static_cast<std::size_t>(i)] = first;
  }
  const Tensor memory = allocate_laid(small.shape, dtype, host(), Lay::kRandom, random);
  write_on(tensor::current_stream(host()), memory, small, "argument");
  std::vector<std::int64_t> strides(memory.strides().begin(), memory.strides().end());
  strides[dim] = 0;
  return memory.as_strided(value.shape, Strides(strides), memory.offset());
}

// Places the elements in memory of a random kind. Sets `value` to the stored values.
Tensor placed(Array& value, DType dtype, bool is_dense, bool may_repeat, Random& random) {
  value = rounded(value, dtype);
  const Lay lays[] = {Lay::kDense, Lay::kReversed, Lay::kRandom};
  if (may_repeat && !is_dense && !value.shape.is_empty() && value.shape.ndim() > 0 && random() % 6 == 0) {
    return expanded(value, random() % value.shape.size(), dtype, random);
  }
  Tensor memory = allocate_laid(value.shape, dtype, host(), is_dense ? Lay::kDense : lays[random() % 3], random);
  write_on(tensor::current_stream(host()), memory, value, "argument");
  return memory;
}

// A call and its expected results.
struct Trial {
  const OpCaseInfo& info;
  OpSample sample;
  bool is_derived;  // otherwise other indices may be invalid
  std::vector<Tensor> inputs = {};
  std::vector<Array> arrays = {};
  DType least = DType::kF64;  // least precise dtype of the floating arguments; f32 if there are none

  void place(Random& random) {
    if (std::ranges::all_of(sample.inputs, [](const SampleInput& input) { return input.dtype || input.is_absent; })) {
      least = DType::kF32;
    }
    const DType all = kFloating[random() % std::size(kFloating)];
    const bool is_mixed = random() % 4 == 0;
    for (const SampleInput& input : sample.inputs) {
      const DType dtype = dtype_in(input, is_mixed ? kFloating[random() % std::size(kFloating)] : all);
      if (is_floating(dtype) && tolerance_in(dtype, 1e-5) > tolerance_in(least, 1e-5)) least = dtype;
      arrays.push_back(input.value);
      inputs.push_back(input.is_absent ? Tensor()
                                       : on_device(placed(arrays.back(), dtype, info.op == "view",
                                                          is_derived || !input.dtype, random),
                                                   tested_device()));
    }
  }
  [[nodiscard]] std::string text() const {
    std::vector<Tensor> none(static_cast<std::size_t>(sample.outputs));
    std::string strides;
    for (const Tensor& input : inputs) strides += input ? concat(" ", input.strides()) : std::string();
    return concat(tensor::Call{tensor::find_op(info.op), inputs, sample.attributes.ref(), none}.text(), ", strides",
                  strides);
  }
};

std::string wrong_in(const Trial& trial, const std::vector<Tensor>& outputs, const std::vector<Array>& want,
                     const char* where) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const DType dtype = outputs[i].dtype();
    const DType least =
        is_floating(dtype) && tolerance_in(dtype, 1e-5) > tolerance_in(trial.least, 1e-5) ? dtype : trial.least;
    // A few times the tolerance of the cases, whose values were chosen: a row of equal elements cancels.
    const double tolerance = is_floating(dtype) ? tolerance_in(least, 4 * trial.info.tolerance) : 0;
    const std::string wrong = difference(read_back(outputs[i]), want[i], tolerance);
    if (!wrong.empty()) return concat("output ", i, where, ": ", wrong, "\n  ", trial.text());
  }
  return {};
}

// Checks calls that write to given tensors: with any strides, or the first argument itself.
std::string check_given(const Trial& trial, const std::vector<Tensor>& made, const std::vector<Array>& want,
                        Random& random) {
  const tensor::Operator op = tensor::find_op(trial.info.op);
  const Tensor& first = trial.inputs.empty() ? Tensor() : trial.inputs[0];
  const bool is_over = op->def.traits.is_pointwise && made.size() == 1 && first && first.shape() == made[0].shape() &&
                       first.dtype() == made[0].dtype() && random() % 2 == 0 &&
                       std::ranges::none_of(first.strides(), [](std::int64_t step) { return step == 0; });
  std::vector<Tensor> given;
  if (is_over) {
    given = {first};
  } else {
    for (const Tensor& out : made)
      given.push_back(
          on_device(allocate_laid(out.shape(), out.dtype(), host(), Lay::kRandom, random), tested_device()));
  }
  call_sample(trial.info, trial.sample, tested_device(), trial.inputs, given);
  return wrong_in(trial, given, want, is_over ? " over the argument" : " in a given tensor");
}

// Returns true if the call throws. Calls with mixed dtypes may throw, calls with one dtype may not.
bool is_refused(const Trial& trial) {
  std::vector<Tensor> outputs(static_cast<std::size_t>(trial.sample.outputs));
  try {
    (void)tensor::infer({tensor::find_op(trial.info.op), trial.inputs, trial.sample.attributes.ref(), outputs});
  } catch (const InvalidArgument&) {
    std::set<DType> dtypes;
    for (std::size_t i = 0; i < trial.inputs.size(); ++i) {
      if (trial.inputs[i] && !trial.sample.inputs[i].dtype) dtypes.insert(trial.inputs[i].dtype());
    }
    if (dtypes.size() <= 1) throw;
    return true;
  }
  return false;
}

std::string check_one(std::uint64_t seed) {
  Random random(seed);
  const auto& cases = all_cases();
  const OpCaseInfo& info = cases[random() % cases.size()];
  if (!info.reference) return {};
  bool is_derived = false;
  OpSample sample = derived_sample(info, random, is_derived);
  Trial trial{info, std::move(sample), is_derived};
  trial.place(random);
  if (is_refused(trial)) return {};
  std::vector<Tensor> outputs(static_cast<std::size_t>(trial.sample.outputs));
  call_sample(info, trial.sample, tested_device(), trial.inputs, outputs);
  const std::vector<Array> want = info.reference(trial.arrays, trial.sample.attributes.ref());
  std::string wrong = wrong_in(trial, outputs, want, "");
  if (wrong.empty() && tensor::find_op(info.op)->def.view == nullptr) wrong = check_given(trial, outputs, want, random);
  return wrong;
}

}  // namespace
}  // namespace tessera::ops::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "calls of operators", tessera::ops::testing::check_one);
}
