// Version and build configuration of the library.
#pragma once

#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// Returns the version, such as "0.1.0".
TESSERA_API std::string_view version();

/// Build configuration of the library.
struct BuildInfo {
  std::string_view version;     ///< "0.1.0"
  std::string_view compiler;    ///< "g++ 12.2.0", "clang++ 14.0.6"
  std::string_view build_type;  ///< "Release", "RelWithDebInfo", ...
  std::string_view sanitizers;  ///< "address,undefined"; empty if none.
  bool has_cuda = false;        ///< True if the CUDA device was built.
};

/// Returns the build configuration.
TESSERA_API BuildInfo build_info();

}  // namespace tessera
