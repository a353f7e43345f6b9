// Every operator against its reference in plain loops: in each floating dtype, dense and strided, into new tensors and
// into given ones; and no operator without a case.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tessera/ops/testing/sample_memory.h"

namespace tessera::ops::testing {
namespace {

struct Variant {
  DType dtype;
  bool strided;
};

std::string text_of(const OpCaseInfo& info, const OpSample& sample, const Variant& variant) {
  return info.op + " " + sample.attributes.ref().text() + " " + sample.note + " in " +
         std::string(to_string(variant.dtype)) + (variant.strided ? ", strided" : "");
}

void expect_close(const Array& got, const Array& want, double tolerance) {
  ASSERT_EQ(got.shape, want.shape);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double a = got.values[i];
    const double b = want.values[i];
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    ASSERT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(b))) << "element " << i << ": " << a << ", not " << b;
  }
}

void run_sample(const OpCaseInfo& info, const OpSample& sample, const Variant& variant) {
  SCOPED_TRACE(text_of(info, sample, variant));
  std::vector<Array> arrays;
  std::vector<Tensor> tensors;
  for (const SampleInput& input : sample.inputs) {
    const DType dtype = input.dtype.value_or(variant.dtype);
    arrays.push_back(input.is_absent ? Array() : rounded(input.value, dtype));
    tensors.push_back(input.is_absent ? Tensor() : to_tensor(input.value, dtype, variant.strided));
  }
  std::vector<Tensor> outputs(static_cast<std::size_t>(sample.outputs));
  const tensor::Operator op = tensor::find_op(info.op);
  call_sample(info, sample, device::Device::get("host"), tensors, outputs);
  const std::vector<Array> want = info.reference(arrays, sample.attributes.ref());
  ASSERT_EQ(want.size(), outputs.size());
  const double tolerance = tolerance_in(variant.dtype, info.tolerance);
  for (std::size_t i = 0; i < outputs.size(); ++i) expect_close(to_array(outputs[i]), want[i], tolerance);
  if (op->def.view != nullptr) return;
  std::vector<Tensor> given;
  for (const Tensor& out : outputs) given.push_back(to_tensor(Array(out.shape(), 1), out.dtype(), variant.strided));
  tensor::call_into({op, tensors, sample.attributes.ref(), given});
  for (std::size_t i = 0; i < outputs.size(); ++i) expect_close(to_array(given[i]), want[i], tolerance);
}

bool has_floating_input(const OpSample& sample) {
  for (const SampleInput& input : sample.inputs) {
    if (!input.is_absent && !input.dtype) return true;
  }
  return false;
}

TEST(Reference, EveryOperatorGivesWhatPlainLoopsGive) {
  for (const OpCaseInfo& info : all_cases()) {
    if (!info.reference) continue;
    Random random(7);
    for (const OpSample& sample : info.samples(random)) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
        if (dtype != DType::kF32 && !has_floating_input(sample)) continue;
        for (const bool strided : {false, true}) {
          run_sample(info, sample, {dtype, strided});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Reference, EveryOperatorHasACase) {
  std::set<std::string> names;
  for (const OpCaseInfo& info : all_cases()) {
    EXPECT_TRUE(names.insert(info.op).second) << info.op << " has two cases";
    EXPECT_TRUE(info.reference || !info.why_no_reference.empty()) << info.op << " has no reference and says not why";
  }
  for (const tensor::Operator op : tensor::all_ops()) {
    EXPECT_TRUE(names.contains(op.name())) << op.name() << " has no case in its folder's testing/";
  }
}

}  // namespace
}  // namespace tessera::ops::testing
