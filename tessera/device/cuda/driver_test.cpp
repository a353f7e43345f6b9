// Loading the driver with and without one: the reasons for its absence and the signatures of its functions.
#include "tessera/device/cuda/driver.h"

#include <cudaTypedefs.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "tessera/device/device.h"

namespace tessera::device::cuda {
namespace {

// The signatures that 13.0 returns for these names; a header that renamed one would break a call silently.
static_assert(std::is_same_v<decltype(Driver::cuStreamGetCaptureInfo), PFN_cuStreamGetCaptureInfo_v12030>);
static_assert(
    std::is_same_v<decltype(Driver::cuStreamUpdateCaptureDependencies), PFN_cuStreamUpdateCaptureDependencies_v12030>);
static_assert(std::is_same_v<decltype(Driver::cuGraphNodeGetDependencies), PFN_cuGraphNodeGetDependencies_v12030>);
static_assert(std::is_same_v<decltype(Driver::cuGraphAddNode), PFN_cuGraphAddNode_v12030>);
static_assert(std::is_same_v<decltype(Driver::cuGraphExecUpdate), PFN_cuGraphExecUpdate_v12000>);
static_assert(std::is_same_v<decltype(Driver::cuGraphKernelNodeGetParams), PFN_cuGraphKernelNodeGetParams_v12000>);
static_assert(std::is_same_v<decltype(Driver::cuStreamWriteValue64), PFN_cuStreamWriteValue64_v11070>);
static_assert(std::is_same_v<decltype(Driver::cuStreamWaitValue64), PFN_cuStreamWaitValue64_v11070>);
static_assert(std::is_same_v<decltype(Driver::cuEventElapsedTime), PFN_cuEventElapsedTime_v12080>);
static_assert(std::is_same_v<decltype(Driver::cuLaunchKernelEx), PFN_cuLaunchKernelEx_v11060>);

TEST(CudaDriver, WithoutALibraryTheReasonNamesIt) {
  Driver table;
  const DriverState state = load_driver("libno-such-driver.so.1", table);
  EXPECT_EQ(state.why_none, "no driver: libno-such-driver.so.1 was not found");
  EXPECT_EQ(table.cuInit, nullptr);
}

TEST(CudaDriver, ALibraryThatIsNoDriverIsRefused) {
  Driver table;
  EXPECT_EQ(load_driver("libm.so.6", table).why_none, "no driver: libm.so.6 does not report its version");
}

TEST(CudaDriver, OldDriversAreRefusedWithAWord) {
  EXPECT_EQ(refusal_of_version(12080), "driver must support CUDA 13.0 or newer, got 12.8; update the driver");
  EXPECT_EQ(refusal_of_version(12990), "driver must support CUDA 13.0 or newer, got 12.99; update the driver");
  EXPECT_EQ(refusal_of_version(13000), "");
  EXPECT_EQ(refusal_of_version(14020), "");
}

TEST(CudaDriver, ConnectionsComeFromOurSettingThenTheDriversThenTheMost) {
  EXPECT_EQ(chosen_connections({}, nullptr), 32);
  EXPECT_EQ(chosen_connections({}, "4"), 4);
  EXPECT_EQ(chosen_connections(16, "4"), 16);
  EXPECT_EQ(chosen_connections({}, "1000"), 32);
  EXPECT_EQ(chosen_connections({}, "many"), 8);
}

TEST(CudaDriver, TheKindIsThereOrSaysWhyNot) {
  std::string reason;
  for (const AbsentKind& absent : Device::absent()) {
    if (absent.kind == "cuda") reason = absent.reason;
  }
  bool is_there = false;
  for (const Device& device : Device::all()) is_there = is_there || device.properties().kind == "cuda";
  EXPECT_NE(is_there, !reason.empty());
  if (is_there) return;
  try {
    (void)Device::get("cuda:0");
    ADD_FAILURE() << "a device was found";
  } catch (const NotSupported& error) {
    EXPECT_NE(error.message().find(reason), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace tessera::device::cuda
