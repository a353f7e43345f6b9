#include "tessera/ops/testing/reference.h"

#include <gtest/gtest.h>

#include "tessera/ops/testing/sample_memory.h"

namespace tessera::ops::testing {
namespace {

struct Variant {
  DType dtype;
  bool strided;
};

std::string text_of(const OpCaseInfo& info, const OpSample& sample, const Variant& variant) {
  return testing::text_of(info, sample) + " in " + std::string(to_string(variant.dtype)) +
         (variant.strided ? ", strided" : "");
}

void run_sample(const OpCaseInfo& info, const OpSample& sample, const Variant& variant, const device::Device& device) {
  SCOPED_TRACE(text_of(info, sample, variant));
  std::vector<Array> arrays;
  std::vector<Tensor> tensors;
  for (const SampleInput& input : sample.inputs) {
    const DType dtype = input.dtype.value_or(variant.dtype);
    arrays.push_back(input.is_absent ? Array() : rounded(input.value, dtype));
    tensors.push_back(input.is_absent ? Tensor() : on_device(to_tensor(input.value, dtype, variant.strided), device));
  }
  std::vector<Tensor> outputs(static_cast<std::size_t>(sample.outputs));
  const tensor::Operator op = tensor::find_op(info.op);
  call_sample(info, sample, device, tensors, outputs);
  const std::vector<Array> want = info.reference(arrays, sample.attributes.ref());
  ASSERT_EQ(want.size(), outputs.size());
  const double tolerance = tolerance_in(variant.dtype, info.tolerance);
  for (std::size_t i = 0; i < outputs.size(); ++i) expect_close(read_back(outputs[i]), want[i], tolerance);
  if (op->def.view != nullptr) return;
  std::vector<Tensor> given;
  for (const Tensor& out : outputs) {
    given.push_back(on_device(to_tensor(Array(out.shape(), 1), out.dtype(), variant.strided), device));
  }
  call_sample(info, sample, device, tensors, given);
  for (std::size_t i = 0; i < outputs.size(); ++i) expect_close(read_back(given[i]), want[i], tolerance);
}

bool has_floating_input(const OpSample& sample) {
  for (const SampleInput& input : sample.inputs) {
    if (!input.is_absent && !input.dtype) return true;
  }
  return false;
}

}  // namespace

void expect_close(const Array& got, const Array& want, double tolerance) {
  const std::string difference_found = difference(got, want, tolerance);
  ASSERT_TRUE(difference_found.empty()) << difference_found;
}

bool is_taken(const OpCaseInfo& info, const OpSample& sample, std::span<const Tensor> inputs, std::string_view word) {
  std::vector<Tensor> outputs(static_cast<std::size_t>(sample.outputs));
  const tensor::Operator op = tensor::find_op(info.op);
  try {
    (void)tensor::infer({op, inputs, sample.attributes.ref(), outputs});
    return true;
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    for (const std::string& each : {op->function + ":", std::string(word), "called as " + op->function + "("}) {
      EXPECT_NE(text.find(each), std::string::npos) << "the message lacks \"" << each << "\": " << text;
    }
  }
  return false;
}

void run_case(const OpCaseInfo& info, const device::Device& device) {
  if (!info.reference) return;
  Random random(7);
  for (const OpSample& sample : info.samples(random)) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      if (dtype != DType::kF32 && !has_floating_input(sample)) continue;
      for (const bool strided : {false, true}) {
        run_sample(info, sample, {dtype, strided}, device);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace tessera::ops::testing
