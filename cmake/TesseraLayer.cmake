# A folder is a layer is a target.
#
#   tessera_layer(device DEPS base [TEST_DEPS models] [MUTANTS])
#
# makes from the folder tessera/device
#   tessera_device           objects of every *.cpp (and, where CUDA is built, of cuda/): no test, fuzzer, bench or suite
#   tessera_device_mutants   the same with the bugs of testing/mutants.toml, which a test selects by name (only with MUTANTS,
#                            only in test builds)
#   one test per *_test.cpp and *_mp_test.cpp, one program per *_fuzz.cpp and *_bench.cpp,
# each linked with the layer and its declared dependencies alone, so that a call upwards fails to link. TEST_DEPS names
# layers beside this one that its tests and benches need.
# Files are globbed: a new file or folder needs no edit here.

include(TesseraPrograms)
set_property(GLOBAL PROPERTY TESSERA_LAYERS "")

function(tessera_layer name)
  cmake_parse_arguments(arg "MUTANTS" "" "DEPS;TEST_DEPS;LIBRARIES" ${ARGN})
  get_property(layers GLOBAL PROPERTY TESSERA_LAYERS)
  foreach(dep IN LISTS arg_DEPS arg_TEST_DEPS)
    if(NOT dep IN_LIST layers)
      message(FATAL_ERROR "layer ${name} names ${dep}, which does not stand below it")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TESSERA_LAYERS ${name})

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cu)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.h)
  if(NOT TESSERA_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "(^|/)cuda/|_cuda_")
    set(kernels "")
  endif()
  if(NOT TESSERA_HAS_NCCL)
    list(FILTER sources EXCLUDE REGEX "(^|/)nccl/")
  endif()
  if(NOT TESSERA_HAS_CUDNN)
    list(FILTER sources EXCLUDE REGEX "_cudnn\\.cpp$")
  endif()
  if(NOT TESSERA_HAS_MPI)
    list(FILTER sources EXCLUDE REGEX "(^|/)mpi/")
  endif()
  set(library_sources ${sources})
  list(FILTER library_sources EXCLUDE REGEX "_(test|fuzz|bench|suite)\\.cpp$|(^|/)(testing|example)/")
  set(test_kernels ${kernels})
  list(FILTER kernels EXCLUDE REGEX "_(test|bench|suite)\\.cu$|(^|/)testing/")
  list(FILTER test_kernels INCLUDE REGEX "_(test|bench|suite)\\.cu$|(^|/)testing/")
  # Installed: all but what is for tests or internal. Of cuda/, only the header that opens the device (x_device.h).
  set(entries ${headers})
  list(FILTER entries INCLUDE REGEX "(^|/)cuda/[^/]*_device\\.h$")
  list(FILTER headers EXCLUDE REGEX "_suite\\.h$|(^|/)(testing|example|detail|cuda)/")
  if(TESSERA_HAS_CUDA)
    list(APPEND headers ${entries})
  endif()
  list(TRANSFORM headers PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)

  add_library(tessera_${name} OBJECT ${library_sources})
  tessera_group_sources(tessera_${name} ${library_sources})
  tessera_layer_settings(tessera_${name} "${kernels}" "${arg_LIBRARIES}")
  set_property(TARGET tessera_${name} PROPERTY TESSERA_PUBLIC_HEADERS ${headers})
  if(TESSERA_PRECOMPILE)
    tessera_precompile_library(tessera_${name})
  endif()

  set(closure ${name})
  set(libraries ${arg_LIBRARIES})
  foreach(dep IN LISTS arg_DEPS)
    get_property(below GLOBAL PROPERTY TESSERA_CLOSURE_${dep})
    get_property(below_libraries GLOBAL PROPERTY TESSERA_LIBRARIES_${dep})
    list(APPEND closure ${below})
    list(APPEND libraries ${below_libraries})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  list(REMOVE_DUPLICATES libraries)
  set_property(GLOBAL PROPERTY TESSERA_CLOSURE_${name} ${closure})
  set_property(GLOBAL PROPERTY TESSERA_LIBRARIES_${name} ${libraries})
  foreach(dep IN LISTS arg_TEST_DEPS)
    get_property(beside GLOBAL PROPERTY TESSERA_CLOSURE_${dep})
    list(APPEND closure ${beside})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY TESSERA_PROGRAM_CLOSURE_${name} ${closure})

  if(TESSERA_TESTS)
    if(arg_MUTANTS)
      tessera_mutants_library(tessera_${name}_mutants ${library_sources})
      tessera_layer_settings(tessera_${name}_mutants "${kernels}" "${arg_LIBRARIES}")
    endif()
    tessera_layer_programs(${name} "${sources}" "${test_kernels}")
  endif()
endfunction()

# The objects of a layer with its planted bugs: files that testing/mutants.toml names are compiled from copies in the build
# folder, which come first in the include path.
function(tessera_mutants_library target)
  set(list ${CMAKE_CURRENT_SOURCE_DIR}/testing/mutants.toml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} files REGEX "^file = ")
  list(TRANSFORM files REPLACE "^file = \"(.*)\"$" "\\1")
  list(REMOVE_DUPLICATES files)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE layer)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/mutants)
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE originals)
  list(TRANSFORM files PREPEND ${folder}/${layer}/ OUTPUT_VARIABLE copies)
  add_custom_command(
    OUTPUT ${copies}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/mutate_sources.py --layer ${layer} --out ${folder}/${layer}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${list} ${originals} ${PROJECT_SOURCE_DIR}/tools/mutate_sources.py
    COMMENT "Planting bugs in ${layer}"
    VERBATIM)
  set(sources "")
  foreach(source IN LISTS ARGN)
    if(source IN_LIST files)
      list(APPEND sources ${folder}/${layer}/${source})
      foreach(property COMPILE_OPTIONS UNITY_GROUP)
        get_source_file_property(value ${source} ${property})
        if(value)
          set_source_files_properties(${folder}/${layer}/${source} PROPERTIES ${property} "${value}")
        endif()
      endforeach()
    else()
      list(APPEND sources ${source})
    endif()
  endforeach()
  list(FILTER copies INCLUDE REGEX "\\.h$")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources} ${copies})
  target_include_directories(${target} BEFORE PRIVATE ${folder})
  tessera_group_settings(${target})
  target_compile_options(${target} PRIVATE ${TESSERA_TEST_OPTIONS})
endfunction()

# With TESSERA_GROUP_SOURCES: compiles sources of the target in groups of which no two have the same name for themselves.
# Groups are made when CMake runs; a name that was added since and is there twice is an error of the compiler that goes
# away when CMake runs again.
function(tessera_group_sources target)
  if(NOT TESSERA_GROUP_SOURCES)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/group_sources.py ${paths}
                  OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([^ ]+) (.+)$" matched "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
  endforeach()
  tessera_group_settings(${target})
endfunction()

function(tessera_group_settings target)
  if(NOT TESSERA_GROUP_SOURCES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Compilers take what is in an unnamed namespace of an included file for a mistake.
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
endfunction()

function(tessera_layer_settings target kernels libraries)
  target_link_libraries(${target} PRIVATE tessera_flags ${libraries})
  target_compile_definitions(${target} PRIVATE TESSERA_BUILDING=1)
  if(TESSERA_HAS_CUDA)
    target_include_directories(${target} SYSTEM PRIVATE ${TESSERA_CUDA_INCLUDE})
    if(TESSERA_HAS_NCCL)
      target_include_directories(${target} SYSTEM PRIVATE ${TESSERA_NCCL_INCLUDE})
    endif()
    if(TESSERA_HAS_CUDNN)
      target_include_directories(${target} SYSTEM PRIVATE ${TESSERA_CUDNN_INCLUDE} ${TESSERA_CUDNN_HEADERS})
    endif()
    foreach(kernel IN LISTS kernels)
      tessera_cuda_kernels(${target} ${kernel})
    endforeach()
  endif()
endfunction()

# Half of the time of most sources goes to reading the standard library: it is read once a build.
function(tessera_precompile_library target)
  if(NOT TARGET tessera_precompiled_library)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/precompiled_library.cpp CONTENT
      "// Holds the precompiled header of libraries.\n")
    add_library(tessera_precompiled_library OBJECT ${PROJECT_BINARY_DIR}/generated/precompiled_library.cpp)
    target_link_libraries(tessera_precompiled_library PRIVATE tessera_flags)
    target_precompile_headers(tessera_precompiled_library PRIVATE <algorithm> <array> <atomic> <chrono>
      <condition_variable> <filesystem> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string>
      <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM tessera_precompiled_library)
endfunction()

# Links `target` with the objects of `layer` and of all it declares below it. `flavour` is "" or "_mutants".
function(tessera_link_closure target layer flavour)
  get_property(closure GLOBAL PROPERTY TESSERA_PROGRAM_CLOSURE_${layer})
  get_property(libraries GLOBAL PROPERTY TESSERA_LIBRARIES_${layer})
  foreach(member IN LISTS closure)
    if(flavour AND member STREQUAL layer)
      target_link_libraries(${target} PRIVATE tessera_${member}${flavour})
    else()
      target_link_libraries(${target} PRIVATE tessera_${member})
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE tessera_flags ${libraries} ${CMAKE_DL_LIBS})
  if(TESSERA_HAS_CUDA)
    target_include_directories(${target} SYSTEM PRIVATE ${TESSERA_CUDA_INCLUDE})
  endif()
endfunction()
