// Methods and operators of tensors give the results of the functions that they call.
#include "tessera/tensor/methods.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <sstream>
#include <type_traits>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/operators.h"
#include "tessera/tensor/print.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {
namespace {

using testing::to_array;
using Values = std::vector<double>;

Values values_of(const Tensor& x) { return to_array(x).values; }
Tensor counted(const Shape& shape) { return arange(shape.numel(), {.dtype = DType::kF32}).reshape(shape.values()); }

TEST(Methods, ViewAndRearrange) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(x.reshape({3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.view({6}).shape(), (Shape{6}));
  EXPECT_EQ(x.flatten().shape(), (Shape{6}));
  EXPECT_EQ(values_of(x.transpose(0, 1).contiguous()), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(x.permute({1, 0}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.unsqueeze(0).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(x.unsqueeze(0).squeeze().shape(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(0).expand({4, 2, 3}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(values_of(x.slice(1, 0, 3, 2)), (Values{0, 2, 3, 5}));
  EXPECT_EQ(values_of(x.select(1, -1)), (Values{2, 5}));
  EXPECT_EQ(values_of(x[1]), (Values{3, 4, 5}));
  EXPECT_EQ(x[1][2].item<int>(), 5);
  EXPECT_EQ(values_of(x.index_select(1, arange(1, 3, 1))), (Values{1, 2, 4, 5}));
}

TEST(Methods, ConvertAndReadElements) {
  const Tensor x = full({1}, 2.75);
  EXPECT_EQ(x.item<double>(), 2.75);
  EXPECT_EQ(x.item<int>(), 2);
  EXPECT_TRUE(x.item<bool>());
  EXPECT_EQ(x.item<std::complex<double>>(), std::complex<double>(2.75));
  EXPECT_EQ(x.to(DType::kI64).dtype(), DType::kI64);
  EXPECT_TRUE(x.to(DType::kF32).is_same(x));
  EXPECT_TRUE(x.to(x.device()).is_same(x));
  EXPECT_EQ(values_of(x.to("host", DType::kI32)), Values{2});
  EXPECT_FALSE(x.clone().is_same(x));
}

TEST(Methods, ComputeElements) {
  const Tensor x = full({2}, 4);
  EXPECT_EQ(values_of(x.sqrt()), (Values{2, 2}));
  EXPECT_EQ(values_of(x.rsqrt()), (Values{0.5, 0.5}));
  EXPECT_EQ(values_of(x.square()), (Values{16, 16}));
  EXPECT_EQ(values_of((-x).abs()), (Values{4, 4}));
  EXPECT_EQ(values_of((-x).relu()), (Values{0, 0}));
  EXPECT_NEAR(values_of(x.gelu())[0], 4, 1e-3);
  EXPECT_NEAR(values_of(x.silu())[0], 4 / (1 + std::exp(-4.0)), 1e-6);
  EXPECT_EQ(values_of(x.pow(3)), (Values{64, 64}));
  EXPECT_EQ(values_of(x.clamp(0, 1)), (Values{1, 1}));
  EXPECT_EQ(values_of((x - 4).exp()), (Values{1, 1}));
  EXPECT_EQ(values_of((x - 3).log()), (Values{0, 0}));
  EXPECT_EQ(values_of((x - 4).sin() + (x - 4).cos() + (x - 4).tanh() + (x - 4).sigmoid()), (Values{1.5, 1.5}));
  EXPECT_EQ(values_of(x.softmax(0)), (Values{0.5, 0.5}));
  EXPECT_NEAR(values_of(x.log_softmax(0))[1], std::log(0.5), 1e-6);
  EXPECT_EQ(x.matmul(x).item<double>(), 32);
}

TEST(Methods, Reduce) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(x.sum().item<double>(), 15);
  EXPECT_EQ(values_of(x.sum(-1)), (Values{3, 12}));
  EXPECT_EQ(x.sum({0, 1}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(x.mean().item<double>(), 2.5);
  EXPECT_EQ(values_of(x.mean(0)), (Values{1.5, 2.5, 3.5}));
  EXPECT_EQ(values_of(x.var(1)), (Values{1, 1}));
  EXPECT_EQ(x.var().item<double>(), 3.5);
  EXPECT_EQ(values_of(x.amax(1)), (Values{2, 5}));
  EXPECT_EQ(values_of(x.amin(1, true)), (Values{0, 3}));
  EXPECT_EQ(x.argmax().item<int>(), 5);
  EXPECT_EQ(values_of(x.argmax(1)), (Values{2, 2}));
  EXPECT_FALSE(x.all().item<bool>());
  EXPECT_TRUE(x.any().item<bool>());
  EXPECT_NEAR(x.norm().item<double>(), std::sqrt(55.0), 1e-5);
}

TEST(Methods, ChangeInPlace) {
  const Tensor x = zeros({2});
  EXPECT_TRUE(x.fill_(3).is_same(x));
  EXPECT_EQ(values_of(x), (Values{3, 3}));
  EXPECT_EQ(values_of(x.copy_(full({2}, 5))), (Values{5, 5}));
  EXPECT_EQ(values_of(x.add_(x).add_(1)), (Values{11, 11}));
  EXPECT_EQ(values_of(x.zero_()), (Values{0, 0}));
}

TEST(Operators, Calculate) {
  const Tensor a = full({1}, 6);
  const Tensor b = full({1}, 2);
  EXPECT_EQ(values_of(a + b - 1 + (1 - b)), (Values{6}));
  EXPECT_EQ(values_of(a * b / 3 * (1 / b)), (Values{2}));
  EXPECT_EQ(values_of(-a + 1), (Values{-5}));
  a += b;
  a -= 1;
  a *= b;
  a /= 7;
  EXPECT_EQ(values_of(a), (Values{2}));
  a -= 0.5 * b;
  EXPECT_EQ(values_of(a), (Values{1}));
}

TEST(Operators, CompareElements) {
  const Tensor x = counted({3});
  EXPECT_EQ(values_of(x == 1), (Values{0, 1, 0}));
  EXPECT_EQ(values_of(x != x), (Values{0, 0, 0}));
  EXPECT_EQ(values_of(x < 1), (Values{1, 0, 0}));
  EXPECT_EQ(values_of(1 < x), (Values{0, 0, 1}));
  EXPECT_EQ(values_of(x <= 1), (Values{1, 1, 0}));
  EXPECT_EQ(values_of(1 <= x), (Values{0, 1, 1}));
  EXPECT_EQ(values_of(x > 1), (Values{0, 0, 1}));
  EXPECT_EQ(values_of(1 > x), (Values{1, 0, 0}));
  EXPECT_EQ(values_of(x >= 1), (Values{0, 1, 1}));
  EXPECT_EQ(values_of(1 >= x), (Values{1, 1, 0}));
  EXPECT_EQ((x < 1).dtype(), DType::kBool);
  static_assert(!std::is_constructible_v<bool, tensor::Mask>, "if (a < b) must not compile");
}

TEST(Operators, WriteToStreams) {
  std::ostringstream out;
  out << counted({2});
  EXPECT_EQ(out.str(), tensor::to_string(counted({2})));
}

TEST(CreateOptions, DefaultDTypesDependOnTheFunction) {
  EXPECT_EQ(zeros({1}).dtype(), DType::kF32);
  EXPECT_EQ(arange(3).dtype(), DType::kI64);
  EXPECT_EQ(arange(3, {.device = "host"}).dtype(), DType::kI64);
  EXPECT_EQ(arange(0, 1, 0.5).dtype(), DType::kF32);
}

TEST(DeviceScope, ChoosesTheDeviceOfNewTensors) {
  const device::Device host = device::Device::get("host");
  const DeviceScope scope(host);
  EXPECT_EQ(tensor::default_device().state(), host.state());
  EXPECT_EQ(zeros({1}).device().state(), host.state());
  EXPECT_THROW(DeviceScope(device::Device()), InvalidArgument);
  EXPECT_EQ(tensor::default_device().state(), host.state()) << "a rejected scope changes nothing";
}

}  // namespace
}  // namespace tessera::ops
