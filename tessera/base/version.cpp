#include "tessera/base/version.h"

// CMake passes its values as definitions of this file only, so that a changed option recompiles nothing else.
namespace tessera {
namespace {

#define TESSERA_TEXT_OF(x) #x
#define TESSERA_TEXT(x) TESSERA_TEXT_OF(x)
#define TESSERA_DOTTED(a, b, c) TESSERA_TEXT(a) "." TESSERA_TEXT(b) "." TESSERA_TEXT(c)
#if defined(__clang__)
constexpr std::string_view kCompiler =
    "clang++ " TESSERA_DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__);
#else
constexpr std::string_view kCompiler = "g++ " TESSERA_DOTTED(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif

}  // namespace

std::string_view version() { return TESSERA_VERSION; }

BuildInfo build_info() {
  return {TESSERA_VERSION, kCompiler, TESSERA_BUILD_TYPE, TESSERA_BUILD_SANITIZERS, TESSERA_BUILD_CUDA != 0};
}

}  // namespace tessera
