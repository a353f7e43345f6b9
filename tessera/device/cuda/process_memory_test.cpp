// Interpretation of NVML results, with a fake library.
#include "tessera/device/cuda/process_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tessera::device::cuda {
namespace {

using Process = ManagementLibrary::Process;

std::vector<Process> listed;
int answer = ManagementLibrary::kSuccess;
constexpr const char* kGpu = "0000:1A:00.0";

ManagementLibrary made_up(std::vector<Process> processes, int result = ManagementLibrary::kSuccess) {
  listed = std::move(processes);
  answer = result;
  ManagementLibrary library;
  library.init = [] { return 0; };
  library.device_by_pci_bus_id = [](const char* id, void** device) {
    *device = &listed;
    return std::string(id) == kGpu ? 0 : 6;
  };
  library.processes = [](void* device, unsigned int* count, Process* out) {
    const auto& all = *static_cast<std::vector<Process>*>(device);
    const bool fits = *count >= all.size();
    *count = static_cast<unsigned int>(all.size());
    if (!fits) return ManagementLibrary::kInsufficientSize;
    std::copy(all.begin(), all.end(), out);
    return answer;
  };
  return library;
}

TEST(CudaProcessMemory, WithoutALibraryItIsUnknown) {
  const ManagementLibrary none = load_management_library("libno-such-library.so.1");
  EXPECT_EQ(none.processes, nullptr);
  EXPECT_EQ(process_memory(none, kGpu, 1), std::nullopt);
}

TEST(CudaProcessMemory, ALibraryThatIsAnotherOneIsNotUsed) {
  EXPECT_EQ(load_management_library("libm.so.6").processes, nullptr);
}

TEST(CudaProcessMemory, IsWhatTheLibrarySaysOfThisProcess) {
  EXPECT_EQ(process_memory(made_up({{7, 100, 0, 0}, {8, 200, 0, 0}}), kGpu, 8), 200U);
}

TEST(CudaProcessMemory, AddsTheEntriesOfOneProcess) {
  EXPECT_EQ(process_memory(made_up({{8, 100, 0, 0}, {7, 5, 1, 0}, {8, 200, 1, 0}}), kGpu, 8), 300U);
}

TEST(CudaProcessMemory, AProcessThatIsNotListedIsUnknown) {
  EXPECT_EQ(process_memory(made_up({{7, 100, 0, 0}}), kGpu, 8), std::nullopt);
  EXPECT_EQ(process_memory(made_up({}), kGpu, 8), std::nullopt);
}

TEST(CudaProcessMemory, AnAmountThatIsNotKnownIsUnknown) {
  EXPECT_EQ(process_memory(made_up({{8, ~0ULL, 0, 0}}), kGpu, 8), std::nullopt);
}

TEST(CudaProcessMemory, AnotherGpuOrAnErrorIsUnknown) {
  EXPECT_EQ(process_memory(made_up({{8, 100, 0, 0}}), "0000:1B:00.0", 8), std::nullopt);
  EXPECT_EQ(process_memory(made_up({{8, 100, 0, 0}}, 999), kGpu, 8), std::nullopt);
}

TEST(CudaProcessMemory, AsksAgainWhenThereAreManyProcesses) {
  std::vector<Process> many;
  for (unsigned int pid = 1; pid <= 500; ++pid) many.push_back({pid, pid * 1000ULL, 0, 0});
  EXPECT_EQ(process_memory(made_up(many), kGpu, 499), 499000U);
}

}  // namespace
}  // namespace tessera::device::cuda
