#include "tessera/device/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/env.h"
#include "tessera/base/error.h"

namespace tessera::device::cuda {
namespace detail {
Driver loaded_driver;
}

namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

constexpr int kDriverDefaultConnections = 8;

void* resolve(GetProcAddress get, const char* name) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // Legacy: stream 0 is the legacy default stream in every call, whatever this was compiled with.
  if (get(name, &function, kDriverVersion, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) != CUDA_SUCCESS) return nullptr;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? function : nullptr;
}

std::string fill_table(GetProcAddress get, Driver& table) {
  std::string missing;
#define TESSERA_CUDA_RESOLVE(name)                                       \
  table.name = reinterpret_cast<decltype(&::name)>(resolve(get, #name)); \
  if (table.name == nullptr) missing += std::string(" ") + #name;
  TESSERA_CUDA_REQUIRED(TESSERA_CUDA_RESOLVE)
#undef TESSERA_CUDA_RESOLVE
#define TESSERA_CUDA_RESOLVE(name) table.name = reinterpret_cast<decltype(&::name)>(resolve(get, #name));
  TESSERA_CUDA_OPTIONAL(TESSERA_CUDA_RESOLVE)
#undef TESSERA_CUDA_RESOLVE
  return missing;
}

int apply_connections() {
  std::optional<int> ours;
  if (std::getenv("TESSERA_CUDA_CONNECTIONS") != nullptr) ours = env::cuda_connections();
  const char* theirs = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int connections = chosen_connections(ours, theirs);
  if (ours || theirs == nullptr) {
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(connections).c_str(), 1);
  }
  return connections;
}

}  // namespace

int chosen_connections(std::optional<int> ours, const char* theirs) {
  if (ours) return *ours;
  if (theirs == nullptr) return kMaxConnections;
  char* end = nullptr;
  const long value = std::strtol(theirs, &end, 10);
  if (end == theirs || *end != '\0') return kDriverDefaultConnections;
  return static_cast<int>(std::clamp(value, 1L, long{kMaxConnections}));
}

std::string refusal_of_version(int version) {
  if (version >= kDriverVersion) return {};
  return tessera::detail::concat("driver must support CUDA 13.0 or newer, got ", version / 1000, ".",
                                 version % 1000 / 10, "; update the driver");
}

DriverState load_driver(const char* library, Driver& table) {
  DriverState state;
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    state.why_none = tessera::detail::concat("no driver: ", library, " was not found");
    return state;
  }
  // These two have had the same signature since CUDA 2.2 and 12.0; a plain lookup is correct only for them.
  const auto get_version = reinterpret_cast<CUresult (*)(int*)>(::dlsym(handle, "cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&state.version) != CUDA_SUCCESS) {
    state.why_none = tessera::detail::concat("no driver: ", library, " does not report its version");
    return state;
  }
  state.why_none = refusal_of_version(state.version);
  if (!state.why_none.empty()) return state;
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(handle, "cuGetProcAddress_v2"));
  const std::string missing = get != nullptr ? fill_table(get, table) : " cuGetProcAddress_v2";
  if (!missing.empty()) {
    state.why_none = "the driver lacks" + missing + "; update the driver";
    return state;
  }
  state.connections = apply_connections();
  if (const CUresult result = table.cuInit(0); result != CUDA_SUCCESS) {
    const char* text = nullptr;
    table.cuGetErrorString(result, &text);
    state.why_none = result == CUDA_ERROR_NO_DEVICE
                         ? "the driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)"
                         : tessera::detail::concat("the driver does not start: ", text != nullptr ? text : "unknown");
  }
  return state;
}

const DriverState& driver_state() {
  static const DriverState state = load_driver("libcuda.so.1", detail::loaded_driver);
  return state;
}

}  // namespace tessera::device::cuda
