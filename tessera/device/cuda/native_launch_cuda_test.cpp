// Launches of other libraries on a GPU: here the driver itself, on the native stream.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/testing/empty_kernel.h"
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

TEST_F(NativeLaunchOnCuda, OverlapInsideALibraryIsOrderedInACapture) {
  if (!device_.properties().has_overlap) GTEST_SKIP() << "launches do not overlap on " << device_.name();
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  launch(1);  // with the context of the device current
  stream_.launch_native([&](void*) {
    ASSERT_EQ(driver().cuModuleLoadDataEx(&module, testing::kEmptyKernel, 0, nullptr, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(driver().cuModuleGetFunction(&kernel, module, "tessera_empty"), CUDA_SUCCESS);
  });
  const auto launch_overlapping = [&](void* native) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = static_cast<CUstream>(native);
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int i = 0; i < 3; ++i) ASSERT_EQ(driver().cuLaunchKernelEx(&config, kernel, nullptr, nullptr), CUDA_SUCCESS);
  };
  stream_.begin_capture();
  stream_.launch_native(launch_overlapping, {.label = "theirs"});
  const CaptureInfo after = stream_.capture_info();
  ASSERT_EQ(after.dependencies.size(), 1U);
  const Dependencies edges = stream_.capture_predecessors(after.dependencies[0].node);
  launch_overlapping(stream_.native());  // not declared as the work of a library
  const Dependencies foreign = stream_.capture_predecessors(stream_.capture_info().dependencies.at(0).node);
  const Graph graph = stream_.end_capture();
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].kind, EdgeKind::kFull);
  ASSERT_EQ(foreign.size(), 1U);
  EXPECT_EQ(foreign[0].kind, EdgeKind::kWeak);
  EXPECT_EQ(graph.nodes().size(), 6U);
  graph.instantiate().launch(stream_);
  stream_.synchronize();
  stream_.launch_native([&](void*) { ASSERT_EQ(driver().cuModuleUnload(module), CUDA_SUCCESS); });
}

TEST_F(NativeLaunchOnCuda, WhatItThrowsChangesNothing) {
  EXPECT_THROW(stream_.launch_native([](void*) { TESSERA_THROW(DeviceError, "refused"); }), DeviceError);
  launch(10);
  stream_.synchronize();
  EXPECT_EQ(*word_, 10U);
}

}  // namespace
}  // namespace tessera::device::cuda
