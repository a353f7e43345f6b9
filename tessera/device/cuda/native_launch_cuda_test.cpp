// Launches of other libraries on a GPU: here the driver itself, on the native stream.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/device/device.h"

namespace tessera::device::cuda {
namespace {

class NativeLaunchOnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = Device::get("cuda");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    stream_ = device_.create_stream({.name = "native"});
    memory_ = device_.allocate_pinned(64);
    word_ = reinterpret_cast<std::uint32_t*>(memory_.data());
    *word_ = 0;
  }
  void launch(std::uint32_t value, bool loads_code = false) {
    stream_.launch_native(
        [&](void* native) {
          CUcontext current = nullptr;
          ASSERT_EQ(driver().cuCtxGetCurrent(&current), CUDA_SUCCESS);
          ASSERT_NE(current, nullptr);
          ASSERT_EQ(native, stream_.native());
          ASSERT_EQ(
              driver().cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(word_), value, 1, static_cast<CUstream>(native)),
              CUDA_SUCCESS);
        },
        {.label = "theirs"}, loads_code);
  }

  Device device_;
  Stream stream_;
  PinnedMemory memory_;
  std::uint32_t* word_ = nullptr;
};

TEST_F(NativeLaunchOnCuda, IsWorkOfTheStream) {
  launch(7);
  const Tick tick = stream_.stamp();
  stream_.synchronize();
  EXPECT_EQ(*word_, 7U);
  EXPECT_GE(stream_.completed(), tick);
  launch(8, true);
  stream_.synchronize();
  EXPECT_EQ(*word_, 8U);
}

TEST_F(NativeLaunchOnCuda, IsCapturedUnderItsLabel) {
  stream_.begin_capture();
  launch(9);
  const Graph graph = stream_.end_capture();
  ASSERT_EQ(graph.nodes().size(), 1U);
  EXPECT_EQ(graph.nodes()[0].label, "theirs");
  EXPECT_EQ(*word_, 0U);
  graph.instantiate().launch(stream_);
  stream_.synchronize();
  EXPECT_EQ(*word_, 9U);
}

TEST_F(NativeLaunchOnCuda, WhatItThrowsChangesNothing) {
  EXPECT_THROW(stream_.launch_native([](void*) { TESSERA_THROW(DeviceError, "refused"); }), DeviceError);
  launch(10);
  stream_.synchronize();
  EXPECT_EQ(*word_, 10U);
}

}  // namespace
}  // namespace tessera::device::cuda
