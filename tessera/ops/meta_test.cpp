// Every operator on the device "meta": results have the shape, dtype and strides of those on the host, and no values.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"
#include "tessera/memory/label_use.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/call_observer.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/print.h"

namespace tessera::ops {
namespace {

using tensor::meta_device;

std::vector<Tensor> call_with(const tensor::Operator& op, const std::vector<Tensor>& inputs,
                              const tensor::Attributes& attributes, int outputs) {
  std::vector<Tensor> results(static_cast<std::size_t>(outputs));
  tensor::call_into({op, inputs, attributes.ref(), results});
  return results;
}

TEST(Meta, EveryOperatorInfersWhatItComputes) {
  testing::Random random(1);
  int compared = 0;
  for (const testing::OpCaseInfo& info : testing::all_cases()) {
    if (!info.samples) continue;
    const tensor::Operator op = tensor::find_op(info.op);
    for (const testing::OpSample& sample : info.samples(random)) {
      std::vector<Tensor> here;
      std::vector<Tensor> there;
      for (const testing::SampleInput& input : sample.inputs) {
        here.push_back(input.is_absent ? Tensor() : testing::to_tensor(input.value, input.dtype.value_or(DType::kF32)));
        there.push_back(here.back() ? to(here.back(), meta_device()) : Tensor());
      }
      bool has_tensor = false;
      for (const Tensor& each : there) has_tensor |= static_cast<bool>(each);
      if (!has_tensor) continue;  // created by call_on(), see below
      std::vector<Tensor> want;
      try {
        want = call_with(op, here, sample.attributes, sample.outputs);
      } catch (const NotSupported&) {
        continue;  // this sample needs another dtype
      } catch (const InvalidArgument&) {
        continue;
      }
      const std::vector<Tensor> got = call_with(op, there, sample.attributes, sample.outputs);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[i].shape(), want[i].shape()) << info.op << " " << sample.note;
        EXPECT_EQ(got[i].dtype(), want[i].dtype()) << info.op;
        EXPECT_EQ(got[i].strides(), want[i].strides()) << info.op;
        EXPECT_EQ(got[i].device(), meta_device()) << info.op;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(Meta, CreationDrawsNothing) {
  const DeviceScope meta(meta_device());
  const std::uint64_t calls = generator_state().call;
  const Tensor x = randn({1'000'000, 1'000'000});  // 4 TB
  EXPECT_EQ(x.device(), meta_device());
  EXPECT_EQ(memory::Allocator::of(meta_device()).statistics().now.live_nbytes, 4'000'000'000'000U);
  normal_(x, 0, 1);
  EXPECT_GT(generator_state().call, calls) << "later draws are those of the real program";
  EXPECT_EQ((x + 1).shape(), x.shape());
}

TEST(Meta, ValuesCannotBeRead) {
  const Tensor x = zeros({2, 3}, {.device = meta_device()});
  expect_error<NotSupported>([&] { (void)item(zeros({}, {.device = meta_device()})); },
                             {"item: x must have values, got f32[] on meta"});
  expect_error<NotSupported>([&] { (void)x.data(); }, {"data(): tensor must have values, got f32[2, 3] on meta"});
  expect_error<NotSupported>([&] { (void)x.data_as<float>(); }, {"f32[2, 3] on meta"});
  expect_error<NotSupported>([&] { (void)to(x, device::Device::get("host")); }, {"no values to copy"});
  expect_error<NotSupported>([&] { (void)allclose(x, x); }, {"item: x must have values"});
  EXPECT_EQ(tensor::to_string(x), "f32[2, 3] on meta without values");
}

class Costs final : public tensor::CallObserver {
 public:
  void called(const tensor::Call& call, const tensor::Cost& cost) override {
    names += call.op.name() + " ";
    flops += cost.flops;
  }
  std::string names;
  double flops = 0;
};

TEST(Meta, CallsAreObservedWithTheirCosts) {
  const Tensor a = zeros({10, 20}, {.device = meta_device()});
  const Tensor b = zeros({20, 30}, {.device = meta_device()});
  Costs costs;
  {
    const tensor::CallObserverScope scope(costs);
    (void)mm(a, b);
    (void)zeros({4});  // on the host: it runs
  }
  (void)mm(a, b);
  EXPECT_EQ(costs.names, "mm ");
  EXPECT_EQ(costs.flops, 2.0 * 10 * 20 * 30);
}

TEST(Meta, AllocationsHaveLabelsAndPeaks) {
  const DeviceScope meta(meta_device());
  const memory::Allocator allocator = memory::Allocator::of(meta_device());
  allocator.reset_peaks();
  const std::uint64_t before = allocator.statistics().now.live_nbytes;
  {
    const memory::Label label("activations");
    const Tensor x = empty({1 << 20});
    const Tensor y = x + 1;
    std::uint64_t labeled = 0;
    for (const memory::LabelUse& use : memory::label_uses(allocator.snapshot()))
      labeled += use.label == "activations" ? use.live_nbytes : 0;
    EXPECT_EQ(labeled, 2U << 22);
  }
  EXPECT_EQ(allocator.statistics().now.live_nbytes, before);
  EXPECT_EQ(allocator.statistics().peak_live_nbytes, before + (2U << 22));
}

}  // namespace
}  // namespace tessera::ops
