#include "tessera/device/cuda/process_memory.h"

#include <dlfcn.h>

#include <exception>
#include <vector>

namespace tessera::device::cuda {

ManagementLibrary load_management_library(const char* library) noexcept {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {};
  ManagementLibrary loaded;
  loaded.init = reinterpret_cast<decltype(loaded.init)>(::dlsym(handle, "nvmlInit_v2"));
  loaded.device_by_pci_bus_id =
      reinterpret_cast<decltype(loaded.device_by_pci_bus_id)>(::dlsym(handle, "nvmlDeviceGetHandleByPciBusId_v2"));
  loaded.processes =
      reinterpret_cast<decltype(loaded.processes)>(::dlsym(handle, "nvmlDeviceGetComputeRunningProcesses_v3"));
  const bool is_usable =
      loaded.init != nullptr && loaded.device_by_pci_bus_id != nullptr && loaded.processes != nullptr;
  if (is_usable && loaded.init() == ManagementLibrary::kSuccess) return loaded;  // stays loaded until the process ends
  ::dlclose(handle);
  return {};
}

const ManagementLibrary& management_library() noexcept {
  static const ManagementLibrary library = load_management_library("libnvidia-ml.so.1");
  return library;
}

std::optional<std::size_t> process_memory(const ManagementLibrary& library, const std::string& pci_bus_id,
                                          std::uint32_t pid) noexcept {
  if (library.processes == nullptr) return std::nullopt;
  try {
    void* device = nullptr;
    if (library.device_by_pci_bus_id(pci_bus_id.c_str(), &device) != ManagementLibrary::kSuccess) return std::nullopt;
    std::vector<ManagementLibrary::Process> processes(64);
    auto count = static_cast<unsigned int>(processes.size());
    int result = library.processes(device, &count, processes.data());
    // Processes come and go: each call returns their number, and there may be more by the next call.
    for (int tries = 0; result == ManagementLibrary::kInsufficientSize && tries < 4; ++tries) {
      processes.resize(2 * std::size_t{count} + 1);
      count = static_cast<unsigned int>(processes.size());
      result = library.processes(device, &count, processes.data());
    }
    if (result != ManagementLibrary::kSuccess) return std::nullopt;
    std::optional<std::size_t> taken;
    for (std::size_t i = 0; i < count && i < processes.size(); ++i) {
      const ManagementLibrary::Process& process = processes[i];
      if (process.pid != pid || process.used_nbytes == ~0ULL) continue;
      taken = taken.value_or(0) + process.used_nbytes;  // one entry per partition of a partitioned GPU
    }
    return taken;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace tessera::device::cuda
