# The installed library: all layers in one shared object that exports only symbols with TESSERA_API, its headers, and
# the package for find_package(tessera).
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY TESSERA_LAYERS)
add_library(tessera SHARED)
add_library(tessera::tessera ALIAS tessera)
set(header_files ${PROJECT_SOURCE_DIR}/tessera/tessera.h)
foreach(layer IN LISTS layers)
  get_property(libraries GLOBAL PROPERTY TESSERA_LIBRARIES_${layer})
  get_target_property(public_headers tessera_${layer} TESSERA_PUBLIC_HEADERS)
  list(APPEND header_files ${public_headers})
  target_link_libraries(tessera PRIVATE $<BUILD_INTERFACE:tessera_${layer}>)
  foreach(library IN LISTS libraries)
    target_link_libraries(tessera PRIVATE $<BUILD_INTERFACE:${library}>)
  endforeach()
endforeach()
target_link_libraries(tessera PRIVATE $<BUILD_INTERFACE:tessera_flags> ${CMAKE_DL_LIBS} PUBLIC Threads::Threads)
target_sources(tessera PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${header_files})
target_compile_features(tessera PUBLIC cxx_std_20)
set_target_properties(tessera PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_property(GLOBAL PROPERTY TESSERA_HEADER_FILES ${header_files})

install(TARGETS tessera EXPORT tessera FILE_SET HEADERS)
install(EXPORT tessera NAMESPACE tessera:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera FILE tesseraTargets.cmake)
file(WRITE ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
  "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/tesseraTargets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

# The dependencies of this build with their versions.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(optional_dependencies "")
if(TESSERA_HAS_CUDA)
  list(APPEND optional_dependencies --nvcc ${TESSERA_NVCC} --with cuda=${TESSERA_CUDA_INCLUDE})
endif()
if(TESSERA_HAS_NCCL)
  list(APPEND optional_dependencies --with nccl=${TESSERA_NCCL_INCLUDE})
endif()
if(TESSERA_HAS_CUDNN)
  list(APPEND optional_dependencies --with cudnn-frontend=${TESSERA_CUDNN_INCLUDE} --with cudnn=${TESSERA_CUDNN_HEADERS})
endif()
if(TESSERA_HAS_MPI)
  list(APPEND optional_dependencies --with openmpi=${TESSERA_MPI_INCLUDE})
endif()
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/make_sbom.py --output ${PROJECT_BINARY_DIR}/sbom.json
          --version ${PROJECT_VERSION} --compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" ${optional_dependencies} --
          ${TESSERA_ASIO_INCLUDE} /usr/include /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
  COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${PROJECT_BINARY_DIR}/sbom.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
