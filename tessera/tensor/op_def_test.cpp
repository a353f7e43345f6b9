// The registry of operators: contents, order, and errors that abort the program.
#include "tessera/tensor/op_def.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/testing/expect_error.h"
#include "tessera/tensor/call.h"

namespace tessera::tensor {
namespace {

void infer_scalar(const Call&, std::span<OutputInfo> outputs) { outputs[0] = {{}, DType::kF32}; }
void kernel(const KernelCall&) {}
void other_kernel(const KernelCall&) {}

// A kernel may be registered before its operator: static initializers run in any order.
const KernelRegistration kEarly("op_def_test.early", "cuda", other_kernel);
const Operator kOp = register_op({.name = "op_def_test.early",
                                  .inputs = "x, weight?, rest*",
                                  .outputs = "out, statistics",
                                  .infer = infer_scalar,
                                  .host = kernel,
                                  .saves = "weight, out"});

TEST(Registry, TakesArgumentsApart) {
  ASSERT_EQ(kOp->inputs.size(), 3U);
  EXPECT_EQ(kOp->inputs[0].name, "x");
  EXPECT_TRUE(kOp->inputs[1].is_optional);
  EXPECT_EQ(kOp->inputs[1].name, "weight");
  EXPECT_TRUE(kOp->inputs[2].is_list);
  EXPECT_EQ(kOp->outputs[1].name, "statistics");
  EXPECT_EQ(kOp->saved_inputs, 0b10U);
  EXPECT_EQ(kOp->saved_outputs, 0b1U);
}

TEST(Registry, KernelsComeBeforeOrAfterTheirOperator) {
  EXPECT_EQ(kOp->kernels[device_kind("cuda")], &other_kernel);
  EXPECT_EQ(kOp->kernels[kHostKind], &kernel);
  const Operator late = register_op({.name = "op_def_test.late", .inputs = "x", .infer = infer_scalar});
  EXPECT_EQ(late->kernels[kHostKind], nullptr);
  const KernelRegistration registered("op_def_test.late", "host", kernel);
  EXPECT_EQ(late->kernels[kHostKind], &kernel);
}

TEST(Registry, FindsByNameAndSuggestsTheNearest) {
  EXPECT_EQ(find_op("op_def_test.early"), kOp);
  expect_error<InvalidArgument>(
      [] { (void)find_op("op_def_test.erly"); },
      {"unknown operator 'op_def_test.erly'", "did you mean 'op_def_test.early'", "tessera ops"});
}

TEST(Registry, ListsAllByName) {
  const std::vector<Operator> all = all_ops();
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, [](const Operator& op) { return op.name(); }));
  EXPECT_NE(std::ranges::find(all, kOp), all.end());
}

TEST(Registry, NamesOutliveWhatWasGiven) {
  std::string name = "op_def_test.short_lived";
  std::string inputs = "first, second";
  const Operator op = register_op({.name = name, .inputs = inputs, .infer = infer_scalar});
  name.assign(name.size(), '#');
  inputs.assign(inputs.size(), '#');
  EXPECT_EQ(op.name(), "op_def_test.short_lived");
  EXPECT_EQ(op->inputs[1].name, "second");
}

TEST(Registry, CallsAreWrittenForErrors) {
  const Tensor x = Tensor::allocate({2}, DType::kF32, device::Device::get("host"));
  const std::vector<Tensor> inputs = {x, Tensor(), x, x, x, x, x, x};
  const Call made{kOp, inputs, {}, {}};
  const std::string text = made.text();
  EXPECT_TRUE(text.starts_with("op_def_test.early(x: f32[2] on host, rest[0 of 6]: f32[2] on host, rest[1 of 6]"))
      << text;
  EXPECT_EQ(text.find("rest[4"), std::string::npos) << "a long list must be shortened to its first elements: " << text;
}

TEST(RegistryDeathTest, AbortsOnWhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(register_op({.name = "op_def_test.early", .inputs = "x", .infer = infer_scalar}),
               "operator 'op_def_test.early': is registered twice");
  EXPECT_DEATH(KernelRegistration("op_def_test.early", "host", kernel), "already has a kernel for host");
  EXPECT_DEATH(register_op({.name = "", .inputs = "x", .infer = infer_scalar}), "has no name");
  EXPECT_DEATH(register_op({.name = "bad name", .inputs = "x", .infer = infer_scalar}), "letters, digits");
  EXPECT_DEATH(register_op({.name = "nothing", .inputs = "x"}), "neither infer nor view");
  EXPECT_DEATH(register_op({.name = "saves", .inputs = "x", .infer = infer_scalar, .saves = "y"}),
               "saves 'y', which must be an argument or a result");
  EXPECT_DEATH(register_op({.name = "twice", .inputs = "x, x", .infer = infer_scalar}), "two arguments 'x'");
}

}  // namespace
}  // namespace tessera::tensor
