// What this library is and how it was built.
#pragma once

#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// "0.1.0".
TESSERA_API std::string_view version();

/// How the library was built.
struct BuildInfo {
  std::string_view version;     ///< "0.1.0"
  std::string_view compiler;    ///< "g++ 12.2.0", "clang++ 14.0.6"
  std::string_view build_type;  ///< "Release", "RelWithDebInfo", ...
  std::string_view sanitizers;  ///< "address,undefined"; empty: none
  bool has_cuda = false;        ///< whether the CUDA device was built
};

/// How the library was built.
TESSERA_API BuildInfo build_info();

}  // namespace tessera
