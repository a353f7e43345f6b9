// The way of a call to its kernel, shown on two operators defined here.
#include "tessera/tensor/call.h"

#include <gtest/gtest.h>

#include "tessera/base/testing/expect_error.h"

namespace tessera::tensor {
namespace {

void infer_like_first(const Call& call, std::span<OutputInfo> outputs) {
  TESSERA_CHECK_CALL(call, call.inputs[0].shape() == call.inputs[1].shape(), "shapes differ");
  outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

void add_floats(const KernelCall& call) {
  const float* a = call.inputs[0].data_as<float>();
  const float* b = call.inputs[1].data_as<float>();
  float* out = call.outputs[0].data_as<float>();
  const std::int64_t n = call.outputs[0].numel();
  const device::Access accesses[] = {device::reads(a, 4 * n), device::reads(b, 4 * n), device::writes(out, 4 * n)};
  call.stream().run(
      [=] {
        for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
      },
      {.label = "add_floats", .accesses = accesses});
}

const Operator kAdd = register_op({.name = "test.add",
                                   .inputs = "a, b",
                                   .infer = infer_like_first,
                                   .host = add_floats,
                                   .traits = {.is_pointwise = true}});

Tensor filled(const Shape& shape, float value) {
  Tensor t = Tensor::allocate(shape, DType::kF32, device::Device::get("host"));
  t.device().synchronize();
  std::fill_n(t.data_as<float>(), t.numel(), value);
  return t;
}

TEST(Call, RunsTheKernelOfTheDevice) {
  const Tensor sum = call(kAdd, {filled({2, 3}, 1), filled({2, 3}, 2)});
  sum.device().synchronize();
  EXPECT_EQ(sum.shape(), Shape({2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sum.data_as<float>()[i], 3);
}

TEST(Call, WritesIntoAGivenTensorAndCountsIt) {
  const Tensor a = filled({4}, 1);
  const auto before = a.version();
  call_out(kAdd, a, {a, a});
  a.device().synchronize();
  EXPECT_EQ(a.data_as<float>()[3], 2);
  EXPECT_EQ(a.version(), before + 1);
}

TEST(Call, ErrorsNameTheOperatorTheArgumentsAndTheShapes) {
  expect_error<InvalidArgument>(
      [] {
        (void)call(kAdd, {filled({2}, 1), filled({3}, 2)});
      },
      {"test.add: shapes differ; called as test.add(a: f32[2] on host, b: f32[3] on host)"});
}

}  // namespace
}  // namespace tessera::tensor
