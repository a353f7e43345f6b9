// Copies between the host and a device: in stream order, with memory that is reused only after its copy.
#include "tessera/train/detail/host_copies.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tessera/base/testing/expect_error.h"
#include "tessera/device/device.h"
#include "tessera/device/host/host_device.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train::detail {
namespace {

constexpr std::int64_t kCount = 1000;

Tensor host_tensor(std::int32_t first) {
  auto values = std::make_shared<std::vector<std::int32_t>>(kCount);
  std::iota(values->begin(), values->end(), first);
  return Tensor::wrap(values->data(), {kCount}, DType::kI32, tensor::host_device(), values);
}

std::vector<std::int32_t> values_of(const Tensor& x) {
  const Tensor here = on_host(x);
  return {here.data_as<std::int32_t>(), here.data_as<std::int32_t>() + here.numel()};
}

TEST(HostCopies, UploadsToAnotherDeviceHoldTheirValues) {
  const tensor::DeviceScope scope(device::host::make_host_device());
  std::vector<Tensor> kept;
  for (std::int32_t i = 0; i < 20; ++i) {
    kept.push_back(uploaded(host_tensor(i)));
    (void)uploaded(host_tensor(-i));  // its memory is freed at once
  }
  for (std::int32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(kept[static_cast<std::size_t>(i)].device(), tensor::default_device());
    const std::vector<std::int32_t> values = values_of(kept[static_cast<std::size_t>(i)]);
    EXPECT_EQ(values.front(), i);
    EXPECT_EQ(values.back(), i + kCount - 1);
  }
}

TEST(HostCopies, OnTheHostABatchIsNotCopied) {
  const Tensor own = host_tensor(3);
  EXPECT_EQ(uploaded(own).data(), own.data());
  EXPECT_EQ(on_host(own).data(), own.data());
}

// The stream is stopped: values that are stored meanwhile must not reach work that was enqueued before.
TEST(HostCopies, StoresAreInStreamOrder) {
  const device::Stream stream = tensor::host_device().create_stream({.name = "work", .may_spin = true});
  const tensor::StreamScope scope(stream);
  const Tensor rate = ops::zeros({}, {.dtype = DType::kF64});
  std::vector<Tensor> read;
  {
    const device::Hold hold = stream.hold(std::chrono::seconds(60));
    for (int i = 1; i <= 5; ++i) {
      store(rate, static_cast<double>(i));
      read.push_back(ops::mul(rate, 10));
    }
    hold.release();
  }
  stream.synchronize();
  for (std::size_t i = 0; i < read.size(); ++i)
    EXPECT_EQ(*read[i].data_as<double>(), 10.0 * static_cast<double>(i + 1));
}

TEST(HostCopies, AReplayReadsStoredValuesAndItsResultAgain) {
  const device::Stream& stream = tensor::current_stream(tensor::host_device());
  const Tensor rate = ops::zeros({});
  const HostValues result;
  memory::GraphCapture capture(memory::Allocator::of(tensor::host_device()), stream);
  result.read(ops::mul(rate, 2));
  const memory::CapturedGraph graph = capture.end();
  for (const float value : {1.0F, 7.0F, -3.0F}) {
    store(rate, value);
    graph.replay(stream);
    stream.synchronize();
    EXPECT_EQ(result.as<float>(), 2 * value);
  }
}

TEST(HostCopies, ErrorsNameTheTensor) {
  expect_error<InvalidArgument>([] { store(ops::zeros({2}), 1.0F); },
                                {"store: requires a contiguous tensor of 4 bytes"});
  expect_error<InvalidArgument>([] { HostValues().read(ops::zeros({2})); }, {"HostValues: requires 1 contiguous"});
}

}  // namespace
}  // namespace tessera::train::detail
