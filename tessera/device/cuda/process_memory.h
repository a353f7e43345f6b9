// The GPU memory that this process uses in total, including contexts, libraries and other allocators. The driver does
// not report it; its management library (NVML) does. NVML is loaded at run time, and the functions in use are declared
// here, so that neither its header nor the library is required.
//
// Every failure means unknown, never an error: no library, an unknown GPU, or a process that is not listed, as in a
// container whose process ids are not translated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tessera::device::cuda {

/// The NVML functions in use; null if the library is missing.
struct ManagementLibrary {
  /// nvmlProcessInfo_v2_t of NVML.
  struct Process {
    unsigned int pid;
    unsigned long long used_nbytes;  // all ones: unknown
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

/// Loads and starts the library of this name; all functions are null on failure.
ManagementLibrary load_management_library(const char* library) noexcept;
/// Returns the library of the driver, loaded at the first call.
const ManagementLibrary& management_library() noexcept;

/// Returns the memory that process `pid` uses on the GPU at this PCI address; nullopt if unknown.
std::optional<std::size_t> process_memory(const ManagementLibrary& library, const std::string& pci_bus_id,
                                          std::uint32_t pid) noexcept;

}  // namespace tessera::device::cuda
