#include "tessera/comm/backends/nccl/detail/library.h"

#include <dlfcn.h>

#include "tessera/base/error.h"

namespace tessera::comm::nccl {
namespace {

// The first version with non-blocking communicators.
constexpr int kOldest = 21400;

}  // namespace

NcclLibrary load_library(const char* name) {
  NcclLibrary library;
  void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();  // contains the name and the reason
    library.why_none = tessera::detail::concat("NCCL was not found (", why != nullptr ? why : name,
                                               "); install it, or add its directory to LD_LIBRARY_PATH");
    return library;
  }
#define TESSERA_NCCL_RESOLVE(function)                                                         \
  library.function = reinterpret_cast<decltype(library.function)>(::dlsym(handle, #function)); \
  if (library.function == nullptr) library.why_none += std::string(library.why_none.empty() ? "" : ", ") + #function;
  TESSERA_NCCL_FUNCTIONS(TESSERA_NCCL_RESOLVE)
#undef TESSERA_NCCL_RESOLVE
  if (!library.why_none.empty()) {
    library.why_none = tessera::detail::concat(name, " lacks ", library.why_none);
  } else if (library.ncclGetVersion(&library.version) != ncclSuccess || library.version < kOldest) {
    library.why_none = tessera::detail::concat(name, " must be version 2.14 or newer, got ", library.version);
  }
  return library;
}

const NcclLibrary& library() {
  static const NcclLibrary& loaded = *new NcclLibrary(load_library("libnccl.so.2"));
  return loaded;
}

void check(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* const last = library().ncclGetLastError(comm);
  TESSERA_THROW(DeviceError, call, ": ", library().ncclGetErrorString(result),
                last == nullptr || *last == '\0' ? "" : tessera::detail::concat(" (", last, ")"));
}

}  // namespace tessera::comm::nccl
