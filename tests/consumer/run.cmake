# cmake -DBUILD=... -DWORK=... -DCONSUMER=... -P run.cmake
# Installs the build into WORK/prefix, copies the consumer out of the tree, builds it against the prefix and runs it.
foreach(folder prefix source build)
  file(REMOVE_RECURSE ${WORK}/${folder})
endforeach()
file(COPY ${CONSUMER}/ DESTINATION ${WORK}/source)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(arguments "")
if(CMAKE_CXX_COMPILER)
  list(APPEND arguments -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${WORK}/source -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix ${arguments}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/build/consumer COMMAND_ERROR_IS_FATAL ANY)

# The package must not lead back into the tree it was built in.
file(GLOB package ${WORK}/prefix/lib*/cmake/tessera/*.cmake ${WORK}/prefix/lib*/*/cmake/tessera/*.cmake)
if(NOT package)
  message(FATAL_ERROR "no package files under ${WORK}/prefix")
endif()
foreach(file IN LISTS package)
  file(READ ${file} text)
  string(FIND "${text}" "${TREE}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} names the source tree ${TREE}")
  endif()
endforeach()
