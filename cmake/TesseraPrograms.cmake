# The programs of a layer, made from the endings of its files (see TesseraLayer.cmake).
#
#   x_test.cpp        one process, host                label unit
#   x_mp_test.cpp     forks processes                  label mp
#   x_cuda_test.cpp   needs a GPU, else skips          label gpu; a program of its own
#   x_suite.cpp       part of the layer's conformance suite, linked into every x_suite_test.cpp
#   x_suite_test.cpp  instantiates the suite for one implementation; with MUTANTS also run once per planted bug
#   x_fuzz.cpp        a program taking --runs and --seed; short here, long with label campaign
#   x_bench.cpp       part of the layer's bench suite, bench_<layer>
#   testing/*.cpp     shared by the tests of this layer and of those above; example/*.cpp likewise: templates to copy
#   x_test.cu, testing/x.cu   kernels for the tests
#   testing/x_main.cpp   a main function, added to programs by name
#
# Other tests of a layer are one program, <layer>_tests, of which ctest runs one file at a time (see tests_main.cpp): some
# links in place of hundreds.
#
# The target tests_<layer> builds the tests of a layer, tests_gpu all that need a GPU, benches the bench programs, and
# campaigns what only long campaigns run: the layers once more with planted bugs in them.
# In the dev build, code of the tests is compiled for quick building; only the layers themselves are optimised in full.
set(TESSERA_TEST_OPTIONS "")
# The whole of a rank's record is touched when the rank comes to be, and tests of ranks make many.
set(TESSERA_TEST_ENVIRONMENT TESSERA_RECORD_BYTES=1MiB)
set(TESSERA_TEST_TIMEOUT 300)  # seconds: only reached when something hangs
if(TESSERA_SANITIZE)
  set(TESSERA_TEST_TIMEOUT 900)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  set(TESSERA_TEST_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-O1> $<$<COMPILE_LANGUAGE:CXX>:-g1>)
endif()

set(TESSERA_TESTS_MAIN ${CMAKE_CURRENT_LIST_DIR}/../tessera/base/testing/tests_main.cpp)

if(TESSERA_TESTS)
  find_package(GTest REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_custom_target(tests_gpu)
  add_custom_target(benches)
  add_custom_target(campaigns)
endif()

function(tessera_layer_programs layer sources kernels)
  add_custom_target(tests_${layer})
  set(suites ${sources})
  list(FILTER suites INCLUDE REGEX "_suite\\.cpp$")
  set(support ${sources})
  list(FILTER support INCLUDE REGEX "(^|/)(testing|example)/")
  list(FILTER support EXCLUDE REGEX "_(test|fuzz|bench|main)\.cpp$")
  if(support)
    add_library(tessera_${layer}_testing OBJECT ${support})
    tessera_group_sources(tessera_${layer}_testing ${support})
    tessera_layer_settings(tessera_${layer}_testing "${kernels}" "GTest::gtest;fmt::fmt;nlohmann_json::nlohmann_json;CLI11::CLI11")
    tessera_test_objects(tessera_${layer}_testing)
  endif()
  if(suites)
    add_library(tessera_${layer}_suite OBJECT ${suites})
    tessera_group_sources(tessera_${layer}_suite ${suites})
    tessera_layer_settings(tessera_${layer}_suite "" "GTest::gtest;fmt::fmt;nlohmann_json::nlohmann_json")
    tessera_test_objects(tessera_${layer}_suite)
  endif()
  set(together ${sources})
  list(FILTER together INCLUDE REGEX "_test\\.cpp$")
  get_property(alone GLOBAL PROPERTY TESSERA_TESTS_ALONE_${layer})
  list(JOIN alone "|" alone)
  list(FILTER together EXCLUDE REGEX "(_suite_test|cuda[a-z_]*_test)\\.cpp$|(^|/)(${alone})\\.cpp$")
  if(together)
    tessera_program(${layer}_tests ${layer} "" ${together} ${TESSERA_TESTS_MAIN})
    tessera_group_sources(${layer}_tests ${together})
    target_link_libraries(${layer}_tests PRIVATE GTest::gmock)
    add_dependencies(tests_${layer} ${layer}_tests)
  endif()
  foreach(source IN LISTS sources)
    if(source IN_LIST together)
      tessera_layer_test(${layer} ${source})
    elseif(source MATCHES "_test\\.cpp$")
      tessera_layer_test_alone(${layer} ${source})
    elseif(source MATCHES "_fuzz\\.cpp$")
      tessera_layer_fuzz(${layer} ${source})
    endif()
  endforeach()
  list(FILTER sources INCLUDE REGEX "_bench\\.cpp$")
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL PROPERTY TESSERA_BENCHES_${layer} ${sources})
endfunction()

# Objects that only tests are linked with, compiled as programs are.
function(tessera_test_objects target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE ${TESSERA_TEST_OPTIONS})
  tessera_precompile(${target})
endfunction()

# GoogleTest and the headers most files begin with are parsed once a build, not once a file.
function(tessera_precompile target)
  if(NOT TARGET tessera_precompiled)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp CONTENT "// Holds the precompiled header.\n")
    add_library(tessera_precompiled OBJECT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp)
    target_link_libraries(tessera_precompiled PRIVATE tessera_flags GTest::gtest fmt::fmt)
    set_target_properties(tessera_precompiled PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tessera_precompiled PRIVATE -fPIE ${TESSERA_TEST_OPTIONS})
    target_precompile_headers(tessera_precompiled PRIVATE <gtest/gtest.h> <gmock/gmock.h> <chrono> <functional> <map>
      <memory> <mutex> <random> <string> <thread> <vector> <fmt/format.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM tessera_precompiled)
endfunction()

function(tessera_program target layer flavour)
  add_executable(${target} ${ARGN})
  get_property(closure GLOBAL PROPERTY TESSERA_PROGRAM_CLOSURE_${layer})
  foreach(member IN LISTS closure)
    if(TARGET tessera_${member}_testing)
      target_link_libraries(${target} PRIVATE tessera_${member}_testing)
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE GTest::gtest fmt::fmt)
  if(NOT target MATCHES "^bench_")
    tessera_precompile(${target})
    target_compile_options(${target} PRIVATE ${TESSERA_TEST_OPTIONS})
  endif()
  tessera_link_closure(${target} ${layer} "${flavour}")
endfunction()

# Runs these tests of a layer once for each bug that is planted in it, as a campaign: of layers without a conformance suite.
function(tessera_mutants_program layer)
  if(NOT TESSERA_TESTS OR TESSERA_SANITIZE OR NOT TARGET tessera_${layer}_mutants)
    return()
  endif()
  tessera_program(${layer}_tests_mutants ${layer} _mutants ${ARGN})
  target_link_libraries(${layer}_tests_mutants PRIVATE GTest::gtest_main GTest::gmock)
  add_test(NAME ${layer}_mutants
           COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/run_mutants.py
                   --mutants ${CMAKE_CURRENT_SOURCE_DIR}/testing/mutants.toml --prefix ${layer}. --minimum 2
                   --program $<TARGET_FILE:${layer}_tests_mutants>)
  set_tests_properties(${layer}_mutants PROPERTIES LABELS "campaign;mutants;${layer}" TIMEOUT 1800
                       ENVIRONMENT ${TESSERA_TEST_ENVIRONMENT})
  set_target_properties(${layer}_tests_mutants PROPERTIES EXCLUDE_FROM_ALL TRUE)
  add_dependencies(campaigns ${layer}_tests_mutants)
endfunction()

# tessera_tests_alone(ops validator_test), before tessera_layer(ops ...): a file that is a program of its own, since what it
# does to its program (operators that it registers) is not for others, or what others do is not for it.
function(tessera_tests_alone layer)
  set_property(GLOBAL APPEND PROPERTY TESSERA_TESTS_ALONE_${layer} ${ARGN})
endfunction()

# The tests of one file, in the program of the layer's tests or by a command of its own.
function(tessera_layer_test layer source)
  get_filename_component(stem ${source} NAME_WE)
  set(label unit)
  if(stem MATCHES "_mp_test$")
    set(label mp)
  elseif(stem MATCHES "cuda")
    set(label gpu)
  endif()
  set(command ${ARGN})
  if(NOT command)
    set(command ${layer}_tests --file=tessera/${layer}/${source})
  endif()
  add_test(NAME ${layer}_${stem} COMMAND ${command})
  set_tests_properties(${layer}_${stem} PROPERTIES LABELS "${label};${layer}" TIMEOUT ${TESSERA_TEST_TIMEOUT})
  if(NOT layer STREQUAL "base")
    set_tests_properties(${layer}_${stem} PROPERTIES ENVIRONMENT ${TESSERA_TEST_ENVIRONMENT})
  endif()
endfunction()

function(tessera_layer_test_alone layer source)
  get_filename_component(stem ${source} NAME_WE)
  set(target ${layer}_${stem})
  tessera_program(${target} ${layer} "" ${source})
  target_link_libraries(${target} PRIVATE GTest::gtest_main GTest::gmock)
  if(stem MATCHES "_suite_test$")
    target_link_libraries(${target} PRIVATE tessera_${layer}_suite)
  endif()
  tessera_layer_test(${layer} ${source} ${target})
  get_property(label TEST ${target} PROPERTY LABELS)
  list(GET label 0 label)
  add_dependencies(tests_${layer} ${target})
  if(label STREQUAL "gpu")
    add_dependencies(tests_gpu ${target})
  endif()

  # A GPU suite is run on the bugs planted for the GPU alone; a layer may have none.
  set(has_planted TRUE)
  if(label STREQUAL "gpu" AND TARGET tessera_${layer}_mutants)
    file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/testing/mutants.toml has_planted REGEX "^names = .*\"cuda\\.")
  endif()
  if(stem MATCHES "_suite_test$" AND TARGET tessera_${layer}_mutants AND has_planted AND NOT TESSERA_SANITIZE)
    tessera_program(${target}_mutants ${layer} _mutants ${source})
    target_link_libraries(${target}_mutants PRIVATE GTest::gtest_main tessera_${layer}_suite)
    string(REGEX REPLACE "_suite_test$" "" implementation ${stem})
    string(REGEX MATCH "^[^_]+" prefix ${implementation})
    # The bugs planted in the layer itself are caught on the host; processes that share a GPU only slow each other down.
    # A suite whose every case starts processes (shm, mpi) is too slow for more than its own.
    set(which --prefix ${prefix}. --prefix ${layer}.)
    if(label STREQUAL "gpu")
      set(which --prefix ${prefix}. --jobs 1)
    elseif(layer STREQUAL "comm" AND NOT prefix STREQUAL "thread")
      set(which --prefix ${prefix}. --minimum 5)
    elseif(layer STREQUAL "shard")
      list(APPEND which --minimum 12)
    elseif(layer STREQUAL "train")
      list(APPEND which --minimum 8)
    endif()
    add_test(NAME ${layer}_${implementation}_mutants
             COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/run_mutants.py
                     --mutants ${CMAKE_CURRENT_SOURCE_DIR}/testing/mutants.toml ${which}
                     --program $<TARGET_FILE:${target}_mutants>)
    set_target_properties(${target}_mutants PROPERTIES EXCLUDE_FROM_ALL TRUE)
    add_dependencies(campaigns ${target}_mutants)
    set(labels campaign mutants ${layer})
    if(label STREQUAL "gpu")
      add_dependencies(tests_gpu ${target}_mutants)
      list(APPEND labels gpu)
    endif()
    set_tests_properties(${layer}_${implementation}_mutants PROPERTIES
      LABELS "${labels}" TIMEOUT 1800 SKIP_REGULAR_EXPRESSION "skipped: every test")
  endif()
endfunction()

# tessera_fuzz_runs(memory capture_order_fuzz RUNS 20000 CAMPAIGN 1000000 TIMEOUT 600), before tessera_layer(memory ...):
# how often this fuzzer runs in the default tests and in the campaign, where all runs are made and take at most TIMEOUT
# seconds. With SECONDS 1200 in place of CAMPAIGN it runs for so long there. Other fuzzers run 2000 times, and in the
# campaign for two minutes.
function(tessera_fuzz_runs layer stem)
  cmake_parse_arguments(arg "" "RUNS;CAMPAIGN;SECONDS;TIMEOUT" "" ${ARGN})
  set(long --runs ${arg_CAMPAIGN})
  if(arg_SECONDS)
    set(long --runs 1000000000 --seconds ${arg_SECONDS})
  endif()
  set_property(GLOBAL PROPERTY TESSERA_FUZZ_${layer}_${stem} ${arg_RUNS} ${arg_TIMEOUT} ${long})
endfunction()

function(tessera_layer_fuzz layer source)
  get_filename_component(stem ${source} NAME_WE)
  set(target ${layer}_${stem})
  tessera_program(${target} ${layer} "" ${source})
  add_dependencies(tests_${layer} ${target})
  set(runs 2000)
  set(long --runs 1000000 --seconds 120)
  set(timeout 900)
  get_property(stated GLOBAL PROPERTY TESSERA_FUZZ_${target})
  if(stated)
    list(POP_FRONT stated runs timeout)
    set(long ${stated})
  endif()
  # A run under a sanitizer takes ten times as long, or more, and is the same run.
  if(TESSERA_SANITIZE)
    math(EXPR runs "${runs} / 5")
    if(runs GREATER 200)
      set(runs 200)
    endif()
  endif()
  add_test(NAME ${target} COMMAND ${target} --runs ${runs})
  set_tests_properties(${target} PROPERTIES LABELS "unit;${layer}" TIMEOUT ${TESSERA_TEST_TIMEOUT})
  add_test(NAME ${target}_long COMMAND ${target} ${long})
  set_tests_properties(${target}_long PROPERTIES LABELS "campaign;${layer}" TIMEOUT ${timeout})
endfunction()

# tessera_suite(device LAYERS base device): the program bench_device, from the x_bench.cpp files of these layers. A layer
# with two suites says whose a file is by its name: FILES "regex" for the one, WITHOUT "regex" for the other.
function(tessera_suite name)
  cmake_parse_arguments(arg "" "FILES;WITHOUT" "LAYERS" ${ARGN})
  if(NOT TESSERA_TESTS)
    return()
  endif()
  set(sources "")
  foreach(layer IN LISTS arg_LAYERS)
    get_property(benches GLOBAL PROPERTY TESSERA_BENCHES_${layer})
    list(APPEND sources ${benches})
  endforeach()
  if(NOT TESSERA_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "cuda")
  endif()
  if(arg_FILES)
    list(FILTER sources INCLUDE REGEX ${arg_FILES})
  endif()
  if(arg_WITHOUT)
    list(FILTER sources EXCLUDE REGEX ${arg_WITHOUT})
  endif()
  list(GET arg_LAYERS -1 top)
  tessera_program(bench_${name} ${top} "" ${sources} ${PROJECT_SOURCE_DIR}/tessera/base/testing/bench_main.cpp)
  target_compile_definitions(bench_${name} PRIVATE
    TESSERA_BENCH_SUITE="${name}" TESSERA_BENCH_RESULTS="build/bench")
  add_dependencies(benches bench_${name})
  # Every row once, briefly, so that a bench that broke is seen before someone needs its numbers.
  add_test(NAME bench_${name} COMMAND bench_${name} --seconds 0 --json ${CMAKE_CURRENT_BINARY_DIR}/bench_${name}_brief.json)
  set_tests_properties(bench_${name} PROPERTIES LABELS "bench;${top}" TIMEOUT 300)
endfunction()
