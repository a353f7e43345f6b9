# Tests of the project as a whole: its gates (label lint), and the result of cmake --install.
set(tools ${PROJECT_SOURCE_DIR}/tools)

function(tessera_gate name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMAND_EXPAND_LISTS)
  set_tests_properties(${name} PROPERTIES LABELS lint TIMEOUT 120)
endfunction()

# Sanitizers do not change the tree or the exported symbols, and clang keeps other weak symbols: one build is enough.
if(NOT TESSERA_SANITIZE)
  foreach(gate layers mutants sizes words)
    tessera_gate(${gate} ${Python3_EXECUTABLE} ${tools}/check_${gate}.py)
  endforeach()
  find_program(TESSERA_CLANG_FORMAT NAMES clang-format-14 clang-format)
  if(TESSERA_CLANG_FORMAT)
    tessera_gate(format ${Python3_EXECUTABLE} ${tools}/check_format.py)
  endif()
  find_program(TESSERA_DOXYGEN doxygen)
  if(TESSERA_DOXYGEN)
    tessera_gate(doxygen ${Python3_EXECUTABLE} ${tools}/check_docs.py)
  endif()
  foreach(test artifacts gates group_sources link_closure mutants)
    tessera_gate(test_${test} ${Python3_EXECUTABLE} ${tools}/tests/${test}_test.py)
  endforeach()
  tessera_gate(host_train_peers ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/peers/host_train/compare_test.py)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(without_cuda "")
    if(NOT TESSERA_HAS_CUDA)
      set(without_cuda --without-cuda)
    endif()
    tessera_gate(symbols ${Python3_EXECUTABLE} ${tools}/check_symbols.py --library $<TARGET_FILE:tessera> ${without_cuda})
    set(library_options --tree ${PROJECT_SOURCE_DIR} --tree ${PROJECT_BINARY_DIR})
    if(CMAKE_BUILD_TYPE STREQUAL "Debug")
      list(APPEND library_options --without-fortify)
    endif()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      list(APPEND library_options --objects)
      foreach(layer IN LISTS layers)
        list(APPEND library_options $<TARGET_OBJECTS:tessera_${layer}>)
      endforeach()
    endif()
    tessera_gate(library ${Python3_EXECUTABLE} ${tools}/check_library.py $<TARGET_FILE:tessera> $<TARGET_FILE:tessera_cli>
                 ${library_options})
    tessera_gate(operators ${Python3_EXECUTABLE} ${tools}/check_operators.py --program $<TARGET_FILE:tessera_cli> ${without_cuda})
  endif()

  find_program(TESSERA_C_COMPILER NAMES cc gcc clang)
  add_test(NAME dlopen
    COMMAND ${CMAKE_COMMAND} -DLIBRARY=$<TARGET_FILE:tessera> -DSOURCE=${PROJECT_SOURCE_DIR}/tests/dlopen
            -DWORK=${PROJECT_BINARY_DIR}/dlopen -DCC=${TESSERA_C_COMPILER} -DPYTHON=${Python3_EXECUTABLE}
            -P ${PROJECT_SOURCE_DIR}/tests/dlopen/run.cmake)
  set_tests_properties(dlopen PROPERTIES LABELS package TIMEOUT 120)

  add_test(NAME consumer
    COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DWORK=${PROJECT_BINARY_DIR}/consumer -DTREE=${PROJECT_SOURCE_DIR}
            -DCONSUMER=${PROJECT_SOURCE_DIR}/tests/consumer -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
            -P ${PROJECT_SOURCE_DIR}/tests/consumer/run.cmake)
  set_tests_properties(consumer PROPERTIES LABELS package TIMEOUT 300)

  # Models of transformers in and out; needs PyPI.
  add_executable(hugging_face_logits EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/hugging_face/logits.cpp)
  target_link_libraries(hugging_face_logits PRIVATE tessera tessera_flags)
  add_dependencies(campaigns hugging_face_logits)
  add_test(NAME hugging_face
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/hugging_face/compare.py --tessera $<TARGET_FILE:tessera_cli>
            --logits $<TARGET_FILE:hugging_face_logits> --work ${PROJECT_BINARY_DIR}/hugging_face)
  set_tests_properties(hugging_face PROPERTIES LABELS "campaign;package" TIMEOUT 3600 SKIP_RETURN_CODE 77
    ENVIRONMENT ${TESSERA_TEST_ENVIRONMENT})
endif()
