#include "tessera/ops/matrix/cuda/cublaslt.h"

#include <dlfcn.h>

#include "tessera/base/error.h"

namespace tessera::ops::cuda {
namespace {

// The message of dlopen contains the reason, such as "cannot open shared object file" or a wrong architecture.
void* open_first(const std::vector<std::string>& libraries, std::string& tried) {
  for (const std::string& library : libraries) {
    if (void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* why = ::dlerror();
    tried += (tried.empty() ? "" : "; ") + (why != nullptr ? std::string(why) : library);
  }
  return nullptr;
}

struct Loaded {
  Loaded() {
    why_none = load_cublaslt({"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12",
                              "/usr/local/cuda/lib64/libcublasLt.so"},
                             table);
  }
  CublasLt table;
  std::string why_none;
};

const Loaded& loaded() {
  static const Loaded once;
  return once;
}

}  // namespace

std::string load_cublaslt(const std::vector<std::string>& libraries, CublasLt& table) {
  std::string tried;
  void* handle = open_first(libraries, tried);
  if (handle == nullptr) return "cuBLASLt was not found (" + tried + ")";
  std::string missing;
#define TESSERA_CUBLASLT_RESOLVE(name)                                      \
  table.name = reinterpret_cast<decltype(&::name)>(::dlsym(handle, #name)); \
  if (table.name == nullptr) missing += std::string(" ") + #name;
  TESSERA_CUBLASLT_FUNCTIONS(TESSERA_CUBLASLT_RESOLVE)
#undef TESSERA_CUBLASLT_RESOLVE
  return missing.empty() ? "" : "cuBLASLt lacks" + missing;
}

const std::string& why_no_cublaslt() { return loaded().why_none; }

const CublasLt& cublaslt() {
  const Loaded& once = loaded();
  TESSERA_CHECK_AS(NotSupported, once.why_none.empty(), "products on cuda require cuBLASLt: ", once.why_none,
                   "; install it, or add its directory to LD_LIBRARY_PATH");
  return once.table;
}

}  // namespace tessera::ops::cuda
