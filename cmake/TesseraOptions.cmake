# The build options, and the flags of all targets of the project.
include(GNUInstallDirs)

option(TESSERA_TESTS "Build the tests, benches and examples" ${PROJECT_IS_TOP_LEVEL})
option(TESSERA_WERROR "Treat warnings as errors" OFF)
option(TESSERA_PRECOMPILE "Read the standard library once for all sources; hides includes that are missing" OFF)
option(TESSERA_GROUP_SOURCES "Compile sources of a layer in groups: quicker from nothing, slower after a small change" OFF)
set(TESSERA_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO (when nvcc is found), ON or OFF")
set(TESSERA_CUDNN AUTO CACHE STRING "Build attention by cuDNN: AUTO (when its headers can be downloaded), ON or OFF")
set(TESSERA_MPI AUTO CACHE STRING "Build the MPI transport: AUTO (when Open MPI's mpi.h is found), ON or OFF")
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")
set_property(CACHE TESSERA_CUDA TESSERA_CUDNN TESSERA_MPI PROPERTY STRINGS AUTO ON OFF)

# A build without a type has no optimization, and thus no checked libc calls.
get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT is_multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type: Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  set_property(CACHE CMAKE_BUILD_TYPE PROPERTY STRINGS Debug Release RelWithDebInfo MinSizeRel)
  message(STATUS "Build type: Release (by default; set CMAKE_BUILD_TYPE for another)")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # programs find their library even after the build directory is moved

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are hashed relative to the build, so that clones share the cache; precompiled headers require the sloppiness.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TESSERA_CCACHE})
endif()

# The build links about three hundred programs, each with all layers below it. mold takes a third of the time.
find_program(TESSERA_MOLD mold)
if(TESSERA_MOLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
  set(CMAKE_CXX_LINKER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/link_in_time.sh)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# Highway: vector code for two instruction sets, selected at run time. More targets would only add code, and wider
# vectors gain little for memory-bound code. Vector math is also compiled for AVX-512 (tessera/ops/CMakeLists.txt).
find_package(hwy REQUIRED)
add_library(tessera_vectors INTERFACE)
target_link_libraries(tessera_vectors INTERFACE hwy::hwy)
target_compile_definitions(tessera_vectors INTERFACE
  "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)")

# Asio without Boost: sockets and their event loop, for the store. Header-only, included only in .cpp files.
find_path(TESSERA_ASIO_INCLUDE asio.hpp REQUIRED)
add_library(tessera_asio INTERFACE)
target_include_directories(tessera_asio SYSTEM INTERFACE ${TESSERA_ASIO_INCLUDE})
target_compile_definitions(tessera_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_DISABLE_VISIBILITY)

# toml++: configuration files of training runs. Header-only, included in one .cpp file.
find_path(TESSERA_TOML_INCLUDE toml++/toml.h REQUIRED)
add_library(tessera_toml INTERFACE)
target_include_directories(tessera_toml SYSTEM INTERFACE ${TESSERA_TOML_INCLUDE})

# xxHash: checksums of checkpoints. Header-only, included in one .cpp file; nothing of it is linked.
find_path(TESSERA_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(tessera_xxhash INTERFACE)
target_include_directories(tessera_xxhash SYSTEM INTERFACE ${TESSERA_XXHASH_INCLUDE})

# libsodium: the HMAC, the random numbers and the constant-time comparison in the handshake of the store. Linked
# statically and hidden, so that programs run on machines without it and the library does not export its symbols.
find_path(TESSERA_SODIUM_INCLUDE sodium.h)
find_library(TESSERA_SODIUM libsodium.a)
if(NOT TESSERA_SODIUM_INCLUDE OR NOT TESSERA_SODIUM)
  message(FATAL_ERROR "libsodium: sodium.h and libsodium.a are required to build; install libsodium-dev. On a machine "
    "without network, run programs that another machine built (scripts/gpu build)")
endif()
add_library(tessera_sodium INTERFACE)
target_include_directories(tessera_sodium SYSTEM INTERFACE ${TESSERA_SODIUM_INCLUDE})
target_link_libraries(tessera_sodium INTERFACE ${TESSERA_SODIUM})
target_link_options(tessera_sodium INTERFACE LINKER:--exclude-libs,libsodium.a)

# utf8proc: categories, case and normalization forms of characters, for tokenizers. Linked statically and hidden, as
# libsodium is, and its version of Unicode stays that of the build.
find_path(TESSERA_UTF8PROC_INCLUDE utf8proc.h)
find_library(TESSERA_UTF8PROC libutf8proc.a)
if(NOT TESSERA_UTF8PROC_INCLUDE OR NOT TESSERA_UTF8PROC)
  message(FATAL_ERROR "utf8proc: utf8proc.h and libutf8proc.a are required to build; install libutf8proc-dev. On a "
    "machine without network, run programs that another machine built (scripts/gpu build)")
endif()
add_library(tessera_utf8proc INTERFACE)
target_include_directories(tessera_utf8proc SYSTEM INTERFACE ${TESSERA_UTF8PROC_INCLUDE})
target_link_libraries(tessera_utf8proc INTERFACE ${TESSERA_UTF8PROC})
target_link_options(tessera_utf8proc INTERFACE LINKER:--exclude-libs,libutf8proc.a)

# oneDNN: f32 products on the host, called on one thread at a time (ops/matrix/detail/product_library.h). Debian builds
# it with OpenMP, whose runtime is linked for the call that limits it to one thread.
find_path(TESSERA_DNNL_INCLUDE oneapi/dnnl/dnnl.h)
find_library(TESSERA_DNNL dnnl)
find_library(TESSERA_GOMP NAMES gomp libgomp.so.1
  HINTS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
if(NOT TESSERA_DNNL_INCLUDE OR NOT TESSERA_DNNL OR NOT TESSERA_GOMP)
  message(FATAL_ERROR "oneDNN: oneapi/dnnl/dnnl.h, libdnnl and libgomp are required to build; install libdnnl-dev")
endif()
file(STRINGS ${TESSERA_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h TESSERA_DNNL_VERSION_LINES REGEX "DNNL_VERSION_M[AI][JN]OR")
string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" TESSERA_DNNL_VERSION "${TESSERA_DNNL_VERSION_LINES}")
if(TESSERA_DNNL_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "oneDNN ${TESSERA_DNNL_VERSION} is too old; 2.6 or later is required: install libdnnl-dev of Debian 12 or later")
endif()
add_library(tessera_dnnl INTERFACE)
target_include_directories(tessera_dnnl SYSTEM INTERFACE ${TESSERA_DNNL_INCLUDE})
target_link_libraries(tessera_dnnl INTERFACE ${TESSERA_DNNL} ${TESSERA_GOMP})

# Flags of all objects of the project. Frame pointers are kept everywhere, because native stacks are unwound by them.
add_library(tessera_flags INTERFACE)
target_compile_options(tessera_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wundef
  -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer>)
if(TESSERA_WERROR)
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
# Hardening. Binaries are position-independent and have stack protectors, checked libc calls and read-only relocations.
# They contain no path of the build machine. Objects of the project support branch targets and shadow stacks (IBT,
# SHSTK). Linkers mark a binary only if all its objects do. Objects of the static libsodium and OpenBLAS do not, so that
# libtessera is not marked and the processor does not check it.
target_compile_options(tessera_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${PROJECT_BINARY_DIR} NORMALIZE builds_in_source)
if(NOT builds_in_source)  # generated sources are outside the source tree
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/>)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fcf-protection=full>)
endif()
if(NOT TESSERA_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # Requires an optimizing build; sanitizers check the same calls themselves.
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>)
endif()
target_link_options(tessera_flags INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

# Notes for generated assembly: its stack is not executable, and on x86 its code (it has none) supports branch targets
# and shadow stacks. Without these notes the linker removes the marks from the binary.
set(TESSERA_ASSEMBLY_NOTES "    .section .note.GNU-stack,\"\",@progbits\n")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  string(APPEND TESSERA_ASSEMBLY_NOTES "    .section .note.gnu.property,\"a\"
    .balign 8
    .long 4, 16, 5
    .asciz \"GNU\"
    .long 0xc0000002, 4, 3, 0
")
endif()

target_include_directories(tessera_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(tessera_flags INTERFACE Threads::Threads)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code misleads these warnings, which then report the standard library; the dev build enables them.
    target_compile_options(tessera_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow>)
  endif()
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()
