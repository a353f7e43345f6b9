// How much memory of a GPU this process takes in all: contexts, libraries and other allocators too. The driver does not
// say; its management library (NVML) does. It is loaded at run time, and the few of its functions that are used are
// declared here, so that neither its header nor the library need be there.
//
// Every "no" is an unknown, never an error: no library, a GPU it does not name, or a process it does not list, as in a
// container whose process numbers it does not translate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tessera::device::cuda {

/// The functions of NVML that are used; null ones: there is no library.
struct ManagementLibrary {
  /// NVML's nvmlProcessInfo_v2_t.
  struct Process {
    unsigned int pid;
    unsigned long long used_nbytes;  // all ones: not known
    unsigned int gpu_instance;
    unsigned int compute_instance;
  };
  static constexpr int kSuccess = 0;
  static constexpr int kInsufficientSize = 7;

  int (*init)() = nullptr;                                               ///< nvmlInit_v2
  int (*device_by_pci_bus_id)(const char* id, void** device) = nullptr;  ///< nvmlDeviceGetHandleByPciBusId_v2
  int (*processes)(void* device, unsigned int* count,
                   Process* processes) = nullptr;  ///< ...GetComputeRunningProcesses_v3
};
static_assert(sizeof(ManagementLibrary::Process) == 24);

/// Loads the library of this name and starts it; all null when that fails.
ManagementLibrary load_management_library(const char* library) noexcept;
/// The one of the driver, loaded at the first call.
const ManagementLibrary& management_library() noexcept;

/// Memory that process `pid` takes on the GPU at this PCI address; nullopt: not known.
std::optional<std::size_t> process_memory(const ManagementLibrary& library, const std::string& pci_bus_id,
                                          std::uint32_t pid) noexcept;

}  // namespace tessera::device::cuda
