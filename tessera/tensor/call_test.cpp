// Dispatch of a call to its kernel, with two operators defined here.
#include "tessera/tensor/call.h"

#include <gtest/gtest.h>

#include <memory>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/layout/layout.h"
#include "tessera/memory/graph_capture.h"

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

const Operator kLaidLike = register_op({.name = "test.laid_like",
                                        .inputs = "x",
                                        .infer =
                                            [](const Call& call, std::span<OutputInfo> outputs) {
                                              const Shape& x = call.inputs[0].shape();
                                              outputs[0] = {{x[0], x[1], 5}, DType::kF32, 0};
                                            },
                                        .host = [](const KernelCall&) {}});

TEST(Call, LaysAResultOutLikeTheInputThatItNames) {
  const Tensor memory = filled({48}, 0);
  const auto strides_for = [&](const Shape& shape, const Strides& strides) {
    const Tensor out = call(kLaidLike, {memory.as_strided(shape, strides, 12)});
    EXPECT_EQ(out.storage().nbytes(), static_cast<std::size_t>(4 * out.numel()));
    return out.strides();
  };
  EXPECT_EQ(strides_for({2, 3, 4}, {12, 4, 1}), Strides({15, 5, 1}));
  EXPECT_EQ(strides_for({2, 3, 4}, {4, 8, 1}), Strides({5, 10, 1}));
  EXPECT_EQ(strides_for({2, 3, 4}, {1, 8, 2}), Strides({1, 10, 2}));
  EXPECT_EQ(strides_for({2, 1, 4}, {6, 1, 1}), Strides({5, 5, 1}));    // gaps are not kept
  EXPECT_EQ(strides_for({2, 3, 4}, {0, 4, 1}), Strides({15, 5, 1}));   // repeated elements have no order,
  EXPECT_EQ(strides_for({2, 3, 4}, {-4, 8, 1}), Strides({15, 5, 1}));  // nor do negative strides
}

// The same kernel for an operator that must not overwrite its inputs.
const Operator kAddApart =
    register_op({.name = "test.add_apart", .inputs = "a, b", .infer = infer_like_first, .host = add_floats});
const Operator kFirstHalf = register_op({.name = "test.first_half", .inputs = "x", .view = [](const Call& call) {
                                           const Tensor& x = call.inputs[0];
                                           return x.as_strided({x.numel() / 2}, {1}, x.offset());
                                         }});
const Operator kNoKernel =
    register_op({.name = "test.no_kernel", .inputs = "a?, b", .infer = [](const Call&, std::span<OutputInfo>) {}});
const Operator kList = register_op({.name = "test.list",
                                    .inputs = "x, rest*",
                                    .infer =
                                        [](const Call& call, std::span<OutputInfo> outputs) {
                                          outputs[0] = {{static_cast<std::int64_t>(call.inputs.size())}, DType::kF32};
                                        },
                                    .host = [](const KernelCall&) {}});

TEST(CallOut, RefusesAnotherShapeOrDType) {
  const Tensor a = filled({4}, 1);
  expect_error<InvalidArgument>(
      [&] {
        call_out(kAdd, filled({5}, 0), {a, a});
      },
      {"output must have shape [4], got f32[5]"});
  const Tensor ints = Tensor::allocate({4}, DType::kI32, a.device());
  expect_error<InvalidArgument>([&] { call_out(kAdd, ints, {a, a}); }, {"output must be f32, got i32[4]"});
  expect_error<InvalidArgument>(
      [&] {
        call_out(kAdd, Tensor(), {a, a});
      },
      {"out must be a tensor, got an empty handle"});
}

TEST(CallOut, RefusesElementsThatShareMemory) {
  const Tensor memory = filled({16}, 0);
  const auto refused = [&](const Shape& shape, const Strides& strides) {
    const Tensor a = filled(shape, 1);
    expect_error<InvalidArgument>(
        [&] {
          call_out(kAdd, memory.as_strided(shape, strides, 4), {a, a});
        },
        {"share memory; clone it first"});
  };
  refused({2, 2}, {0, 1});
  refused({3, 2}, {1, 1});
  refused({2, 3}, {2, 1});
  refused({3, 3}, {2, -2});
  for (const auto& strides : {Strides{1, 2}, Strides{-1, 4}, Strides{3, 1}, Strides{5, 3}}) {
    const Tensor a = filled({2, 2}, 1);
    EXPECT_NO_THROW(call_out(kAdd, memory.as_strided({2, 2}, strides, 4), {a, a})) << to_string(strides);
  }
  const Tensor one = filled({1, 2}, 1);
  EXPECT_NO_THROW(call_out(kAdd, memory.as_strided({1, 2}, {0, 1}, 0), {one, one})) << "one element repeats nothing";
}

TEST(CallOut, RefusesToWriteOverPartOfAnInput) {
  const Tensor memory = filled({8}, 0);
  const Tensor low = memory.as_strided({4}, {1}, 0);
  const Tensor high = memory.as_strided({4}, {1}, 4);
  const Tensor middle = memory.as_strided({4}, {1}, 2);
  EXPECT_NO_THROW(call_out(kAdd, high, {low, low}));
  EXPECT_NO_THROW(call_out(kAdd, low, {low, high})) << "exactly itself, by a pointwise operator";
  expect_error<InvalidArgument>([&] { call_out(kAdd, middle, {low, low}); }, {"shares memory with an input"});
  expect_error<InvalidArgument>([&] { call_out(kAddApart, low, {low, high}); }, {"cannot write over its own input"});
  EXPECT_NO_THROW(call_out(kAddApart, high, {low, low}));
}

TEST(CallOut, SeesMemoryThatWasWrappedTwice) {
  float data[8] = {};
  const device::Device host = device::Device::get("host");
  const Tensor a = Tensor::wrap(data, {4}, DType::kF32, host, nullptr);
  const Tensor b = Tensor::wrap(data + 2, {4}, DType::kF32, host, nullptr);
  const Tensor same = Tensor::wrap(data, {4}, DType::kF32, host, nullptr);
  expect_error<InvalidArgument>([&] { call_out(kAdd, b, {a, a}); }, {"shares memory with an input"});
  expect_error<InvalidArgument>([&] { call_out(kAddApart, same, {a, a}); }, {"its own input"});
  EXPECT_NO_THROW(call_out(kAdd, same, {a, a}));
}

TEST(CallOut, RefusesAViewOperator) {
  const Tensor x = filled({4}, 1);
  EXPECT_EQ(call(kFirstHalf, {x}).data(), x.data());
  expect_error<InvalidArgument>([&] { call_out(kFirstHalf, filled({2}, 0), {x}); },
                                {"test.first_half: a view has no output to write into"});
}

TEST(Call, RefusesTensorsOnTwoDevices) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device other = device::host::make_host_device({.name = "other"});
  const Tensor there = Tensor::allocate({2}, DType::kF32, other);
  expect_error<InvalidArgument>(
      [&] {
        (void)call(kAdd, {filled({2}, 1), there});
      },
      {"test.add: tensors must be on one device, got host and other", "copy one with to()"});
  expect_error<InvalidArgument>(
      [&] {
        call_out(kAdd, there, {filled({2}, 1), filled({2}, 1)});
      },
      {"tensors must be on one device"});
}

TEST(Call, CountsItsArguments) {
  const Tensor a = filled({2}, 1);
  expect_error<InvalidArgument>([&] { (void)call(kAdd, {a}); }, {"test.add: requires 2 tensors, got 1"});
  expect_error<InvalidArgument>([&] { (void)call(kAdd, {a, Tensor()}); }, {"argument b must be a tensor"});
  expect_error<InvalidArgument>([&] { (void)call(kNoKernel, {Tensor(), Tensor()}); }, {"argument b must be a tensor"});
  expect_error<InvalidArgument>([&] { (void)call_on(a.device(), kAdd, {}); }, {"argument a must be a tensor"});
  expect_error<InvalidArgument>([&] { (void)call(kList, {}); }, {"requires at least 1 tensors, got 0"});
  EXPECT_EQ(call(kList, {a}).shape(), Shape({1}));
  EXPECT_EQ(call(kList, {a, a, a}).shape(), Shape({3}));
}

TEST(Call, SaysWhichDevicesHaveAKernel) {
  const Tensor a = filled({2}, 1);
  expect_error<NotSupported>(
      [&] {
        (void)call(kNoKernel, {a, a});
      },
      {"test.no_kernel: device must have a kernel for this operator, got host", "kernels exist for: no device"});
}

TEST(Call, WithoutTheLayersAboveSaysWhatIsMissing) {
  const Tensor a = filled({2}, 1);
  const Tensor whole = Tensor::sharded({4}, DType::kF32, layout::Layout::parse("dp=2 {Shard(0)}"), a);
  expect_error<NotSupported>([&] { (void)call(kAdd, {whole, whole}); }, {"a tensor has a layout", "shard layer"});
  struct Tracked : GradientState {
    Tracked() { is_tracked = true; }
  };
  const Tensor tracked = a.detach();
  tracked.set_gradient_state(std::make_unique<Tracked>());
  expect_error<NotSupported>(
      [&] {
        (void)call(kAdd, {tracked, a});
      },
      {"a tensor requires a gradient", "autograd layer"});
  const GradModeScope off(false);
  EXPECT_NO_THROW((void)call(kAdd, {tracked, a}));
}

TEST(Call, RunsOnTheCurrentStreamAndInfersWithoutRunning) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device device = device::host::make_host_device({.mode = device::host::Mode::kThreaded});
  const Tensor a = Tensor::allocate({3}, DType::kF32, device);
  const device::Stream side = device.create_stream();
  device.synchronize();
  const Tick before = side.stamp();
  {
    const StreamScope scope(side);
    const Tensor out = call(kAdd, {a, a});
    side.synchronize();
  }
  EXPECT_GE(side.completed(), before);
  const Tensor inputs[] = {a, a};
  const auto infos = infer({kAdd, inputs, {}, {}});
  ASSERT_EQ(infos.size(), 1U);
  EXPECT_EQ(infos[0].shape, Shape({3}));
}

TEST(GradMode, IsForOneThreadAndEnds) {
  EXPECT_TRUE(is_grad_enabled());
  {
    const GradModeScope off(false);
    EXPECT_FALSE(is_grad_enabled());
    const GradModeScope on(true);
    EXPECT_TRUE(is_grad_enabled());
  }
  EXPECT_TRUE(is_grad_enabled());
}

TEST(NormalizedDim, CountsFromTheEndAndNamesTheCall) {
  const Tensor a = filled({2, 3}, 1);
  const Tensor inputs[] = {a, a};
  const Call made{kAdd, inputs, {}, {}};
  EXPECT_EQ(normalized_dim(made, -1, 2), 1);
  EXPECT_EQ(normalized_dim(made, 0, 0), 0) << "a scalar counts as one dimension";
  expect_error<InvalidArgument>([&] { (void)normalized_dim(made, 2, 2); },
                                {"test.add: dimension must be in [-2, 2), got 2"});
  expect_error<InvalidArgument>([&] { (void)normalized_dim(made, -3, 2); }, {"dimension must be in [-2, 2), got -3"});
}

// Memory that a captured call reads must stay valid until replays, whatever runs in between.
TEST(Call, ACaptureKeepsWhatItsCallsReadFromOutside) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device host = device::Device::get("host");
  const device::Stream stream = host.create_stream();
  const StreamScope scope(stream);
  Tensor one = filled({1024}, 1);
  const std::byte* memory = one.data();
  const Tensor sum = filled({1024}, 0);
  memory::CapturedGraph graph;
  {
    memory::GraphCapture capture(memory::Allocator::of(host), stream);
    call_out(kAdd, sum, {sum, one});
    graph = capture.end();
  }
  one = Tensor();
  const Tensor other = filled({1024}, 5);  // would get the memory of `one` if the graph did not keep it
  EXPECT_NE(other.data(), memory);
  for (int i = 0; i < 3; ++i) graph.replay(stream);
  stream.synchronize();
  EXPECT_EQ(sum.data_as<float>()[1023], 3);
}

TEST(Call, AKernelThatWaitsForItsStreamIsRefusedInACaptureByName) {
  static const Operator kWaits = register_op(
      {.name = "test.waits", .inputs = "a, b", .infer = infer_like_first, .host = [](const KernelCall& call) {
         call.stream().synchronize();
         add_floats(call);
       }});
  const device::Device host = device::Device::get("host");
  const device::Stream stream = host.create_stream();
  const StreamScope scope(stream);
  const Tensor one = filled({4}, 1);
  stream.synchronize();
  {
    const memory::GraphCapture capture(memory::Allocator::of(host), stream);
    expect_error<NotSupported>(
        [&] {
          (void)call(kWaits, {one, one});
        },
        {"test.waits: cannot be captured", "synchronize", "called as"});
  }
  const Tensor two = call(kWaits, {one, one});
  stream.synchronize();
  EXPECT_EQ(two.data_as<float>()[3], 2) << "outside a capture it may wait";
}

}  // namespace
}  // namespace tessera::tensor
