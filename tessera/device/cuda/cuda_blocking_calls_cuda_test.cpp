// Tests which driver calls wait for a spinning kernel. Each is made in a separate thread while a stream is held. A call
// that returns before the hold is released does not wait. Calls that the device makes without passing the gate must
// return; for other calls the result is only printed, so that a driver that waits less is noticed.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/testing/empty_kernel.h"
#include "tessera/device/device.h"

namespace tessera::device::cuda {
namespace {

using testing::kEmptyKernel;

using namespace std::chrono_literals;

// A call that has not returned by then counts as waiting; the hold is released and the call ends.
constexpr auto kPatience = 2s;
constexpr auto kHoldLimit = 30s;
constexpr std::size_t kGranule = std::size_t{2} << 20;

std::span<const std::byte> empty_image() { return std::as_bytes(std::span(kEmptyKernel)); }

void must(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error("driver error " + std::to_string(result));
}

CUcontext primary_context() {
  CUdevice gpu = 0;
  CUcontext context = nullptr;
  must(driver().cuDeviceGet(&gpu, 0));
  must(driver().cuDevicePrimaryCtxRetain(&context, gpu));
  return context;
}

class BlockingCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device = Device::get("cuda:0");
    } catch (const Error& error) {
      GTEST_SKIP() << error.message();
    }
    held = device.create_stream({.name = "held"});
    other = device.create_stream({.name = "other"});
    empty = device.load_module(empty_image()).kernel("tessera_empty");
    other.launch(empty, {}, KernelArgs());
    pinned = device.allocate_pinned(4096);
    range = device.reserve(kGranule);
    range.map(0, device.create_memory(kGranule));
    device.synchronize(60s);
  }

  // Returns true if `call` returned while the stream was held.
  bool comes_back(const std::function<void()>& call) {
    const Hold hold = held.hold(kHoldLimit);
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::string failure;
    std::thread caller([&] {
      std::string text;
      try {
        must(driver().cuCtxSetCurrent(primary_context()));
        call();
      } catch (const std::exception& error) {
        text = error.what();
      }
      const std::lock_guard lock(mutex);
      is_done = true;
      failure = text;
      changed.notify_one();
    });
    bool came_back = false;
    {
      std::unique_lock lock(mutex);
      came_back = changed.wait_for(lock, kPatience, [&] { return is_done; });
    }
    hold.release();
    caller.join();
    held.synchronize(60s);
    EXPECT_EQ(failure, "");
    return came_back;
  }

  void safe(const char* name, const std::function<void()>& call) {
    const bool came_back = comes_back(call);
    std::printf("%-44s %s\n", name, came_back ? "comes back" : "WAITS");
    EXPECT_TRUE(came_back) << name << " waits for a spinning kernel and is not gated";
  }
  void gated(const char* name, const std::function<void()>& call) {
    std::printf("%-44s %s\n", name, comes_back(call) ? "comes back (gated)" : "waits (gated)");
  }

  Device device;
  Stream held, other;
  Kernel empty;
  PinnedMemory pinned;
  AddressRange range;
};

TEST_F(BlockingCalls, MemoryCallsComeBack) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  safe("cuMemCreate", [&] { must(driver().cuMemCreate(&handle, kGranule, &properties, 0)); });
  safe("cuMemAddressReserve", [&] { must(driver().cuMemAddressReserve(&address, kGranule, 0, 0, 0)); });
  safe("cuMemMap", [&] { must(driver().cuMemMap(address, kGranule, 0, handle, 0)); });
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  safe("cuMemSetAccess", [&] { must(driver().cuMemSetAccess(address, kGranule, &access, 1)); });
  safe("cuMemUnmap", [&] { must(driver().cuMemUnmap(address, kGranule)); });
  safe("cuMemAddressFree", [&] { must(driver().cuMemAddressFree(address, kGranule)); });
  safe("cuMemExportToShareableHandle, import",
       [&] { (void)device.import_memory(device.create_memory(kGranule).export_handle()); });
  safe("cuMemRelease", [&] { must(driver().cuMemRelease(handle)); });
  safe("cuMemGetInfo", [&] { (void)device.memory_use(); });
  void* host = nullptr;
  safe("cuMemHostAlloc", [&] { must(driver().cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE)); });
  gated("cuMemFreeHost", [&] { must(driver().cuMemFreeHost(host)); });
  if (driver().cuMemAlloc == nullptr || driver().cuMemFree == nullptr) return;
  gated("cuMemAlloc", [&] { must(driver().cuMemAlloc(&address, kGranule)); });
  gated("cuMemFree", [&] { must(driver().cuMemFree(address)); });
}

TEST_F(BlockingCalls, StreamAndEventCallsComeBack) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  safe("cuStreamCreateWithPriority",
       [&] { must(driver().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0)); });
  safe("cuEventCreate", [&] { must(driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)); });
  safe("cuEventRecord, cuEventQuery", [&] {
    must(driver().cuEventRecord(event, stream));
    while (driver().cuEventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  });
  safe("cuStreamWaitEvent, cuStreamSynchronize", [&] {
    must(driver().cuStreamWaitEvent(stream, event, 0));
    must(driver().cuStreamSynchronize(stream));
  });
  safe("cuEventDestroy", [&] { must(driver().cuEventDestroy(event)); });
  safe("cuStreamDestroy", [&] { must(driver().cuStreamDestroy(stream)); });
  safe("cuPointerGetAttribute", [&] {
    unsigned int type = 0;
    must(driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        reinterpret_cast<CUdeviceptr>(pinned.data())));
  });
}

TEST_F(BlockingCalls, WorkOnOtherStreamsComesBack) {
  std::vector<std::byte> pageable(1 << 20);
  safe("launch", [&] { other.launch(empty, {}, KernelArgs()); });
  safe("host function", [&] { other.run([] {}); });
  safe("copy from and to pinned memory", [&] {
    other.copy(range.data(), pinned.data(), 4096);
    other.copy(pinned.data(), range.data(), 4096);
  });
  safe("copy from and to pageable memory", [&] {
    other.copy(range.data(), pageable.data(), pageable.size());
    other.copy(pageable.data(), range.data(), pageable.size());
  });
  safe("fill", [&] { other.fill(range.data(), 1, 1, 4096); });
  safe("write and publish", [&] {
    other.write_value(reinterpret_cast<std::uint64_t*>(pinned.data()), 1);
    (void)other.publish();
  });
  safe("synchronize another stream", [&] { other.synchronize(); });
}

TEST_F(BlockingCalls, CopiesOfPageableMemoryOnTheHeldStreamItselfComeBack) {
  std::vector<int> from(1 << 18, 7), to(1 << 18, 0);
  const std::size_t nbytes = from.size() * sizeof(int);
  safe("pageable copies after the hold", [&] {
    held.copy(range.data(), from.data(), nbytes);
    held.copy(to.data(), range.data(), nbytes);
  });
  EXPECT_EQ(to, from);  // the helper has waited for the stream
}

TEST_F(BlockingCalls, GraphCallsComeBack) {
  Graph graph, copy;
  GraphExec exec;
  safe("capture", [&] {
    other.begin_capture();
    for (int i = 0; i < 10; ++i) other.launch(empty, {}, KernelArgs());
    graph = other.end_capture();
  });
  safe("cuGraphClone", [&] { copy = graph.clone(); });
  safe("cuGraphInstantiate", [&] { exec = graph.instantiate(); });
  safe("cuGraphLaunch", [&] { exec.launch(other); });
  safe("cuGraphExecUpdate", [&] { EXPECT_TRUE(exec.update(copy).updated); });
  safe("cuGraphExecDestroy", [&] { exec.reset(); });
  safe("cuGraphDestroy", [&] { graph.reset(); });
}

TEST_F(BlockingCalls, ModuleCallsAreMeasured) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  gated("cuModuleLoadDataEx", [&] { must(driver().cuModuleLoadDataEx(&module, kEmptyKernel, 0, nullptr, nullptr)); });
  gated("cuModuleGetFunction", [&] { must(driver().cuModuleGetFunction(&function, module, "tessera_empty")); });
  gated("cuFuncLoad", [&] { must(driver().cuFuncLoad(function)); });
  gated("cuModuleUnload", [&] { must(driver().cuModuleUnload(module)); });
}

TEST_F(BlockingCalls, PinnedMemoryGivenBackUnderAHoldIsFreedLater) {
  PinnedMemory brief = device.allocate_pinned(1 << 20);
  safe("giving back pinned memory", [&] { brief = PinnedMemory(); });
  safe("a module dropped under a hold", [&] { empty = Kernel(); });
}

TEST_F(BlockingCalls, AModuleLoadWaitsAtTheGateAndSaysForWhom) {
  const Hold hold = held.hold(kHoldLimit);
  try {
    (void)device.load_module(empty_image());
    ADD_FAILURE() << "a module was loaded while a kernel spins";
  } catch (const TimeoutError& error) {
    EXPECT_NE(error.message().find("held"), std::string::npos) << error.message();
  }
  hold.release();
  held.synchronize(60s);
  (void)device.load_module(empty_image());
}

TEST_F(BlockingCalls, AsManyStreamsMaySpinAsTheBudgetSaysAndNoMore) {
  const int most = driver_state().connections - 1;
  std::vector<Stream> streams;
  std::vector<Hold> holds;
  int launched = 0;
  for (int i = 0; i < most; ++i) {
    streams.push_back(device.create_stream());
    holds.push_back(streams.back().hold(kHoldLimit));
    streams.back().launch(empty, {}, KernelArgs());
    ++launched;
  }
  EXPECT_EQ(launched, most);
  const Stream one_more = device.create_stream({.name = "one more"});
  try {
    (void)one_more.hold(kHoldLimit);
    ADD_FAILURE() << "a stream too many was held";
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find(std::to_string(most)), std::string::npos) << error.message();
  }
  one_more.launch(empty, {}, KernelArgs());
  one_more.synchronize(20s);  // work that does not spin has a queue left
  for (const Hold& hold : holds) hold.release();
  for (const Stream& stream : streams) stream.synchronize(60s);
  const Hold again = one_more.hold(kHoldLimit);
  again.release();
  one_more.synchronize(60s);
}

TEST_F(BlockingCalls, ASpinningGridLargerThanTheDeviceIsRefused) {
  LaunchConfig config;
  config.spins = true;
  config.grid[0] = 1u << 20;
  EXPECT_THROW(other.launch(empty, config, KernelArgs()), NotSupported);
  other.synchronize(60s);
}

TEST_F(BlockingCalls, ArgumentsThatTheKernelDoesNotTakeAreRefused) {
  const int extra = 1;
  EXPECT_THROW(other.launch(empty, {}, KernelArgs(extra)), InvalidArgument);
  other.launch(empty, {}, KernelArgs());
  other.synchronize(60s);
}

TEST_F(BlockingCalls, ACopyToAddressesWithNothingBehindThemIsRefused) {
  const AddressRange bare = device.reserve(kGranule);
  std::byte from[16] = {};
  EXPECT_THROW(other.copy(bare.data(), from, sizeof from), InvalidArgument);
  other.synchronize(60s);
}

}  // namespace
}  // namespace tessera::device::cuda
