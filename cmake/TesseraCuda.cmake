# CUDA is optional. If nvcc is found, kernels are compiled to fat binaries (machine code for sm_90, and PTX for later
# architectures) and embedded. The driver is loaded at run time, so that nothing of CUDA is linked.
if(NOT TESSERA_CUDA STREQUAL "OFF")
  find_program(TESSERA_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
  if(TESSERA_NVCC)
    get_filename_component(_cuda_bin ${TESSERA_NVCC} REALPATH)
    get_filename_component(_cuda_bin ${_cuda_bin} DIRECTORY)
    find_path(TESSERA_CUDA_INCLUDE cuda.h HINTS ${_cuda_bin}/../include ${_cuda_bin}/../targets/x86_64-linux/include)
  endif()
endif()

if(TESSERA_NVCC AND TESSERA_CUDA_INCLUDE)
  set(TESSERA_HAS_CUDA ON)
elseif(TESSERA_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TESSERA_CUDA=ON, but nvcc or cuda.h was not found. Put nvcc on PATH, or set TESSERA_CUDA=AUTO.")
else()
  set(TESSERA_HAS_CUDA OFF)
endif()
message(STATUS "CUDA device: ${TESSERA_HAS_CUDA}")
# Compiles kernels that no bench measures in a tenth of the time, if nvcc supports it.
set(TESSERA_NVCC_OPTIMISE -O3)
if(TESSERA_HAS_CUDA AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  execute_process(COMMAND ${TESSERA_NVCC} --help OUTPUT_VARIABLE nvcc_help)
  if(nvcc_help MATCHES "--Ofast-compile")
    set(TESSERA_NVCC_OPTIMISE --Ofast-compile=max)
  endif()
endif()
# NCCL is loaded at run time; a build needs only its header.
set(TESSERA_HAS_NCCL OFF)
if(TESSERA_HAS_CUDA)
  find_path(TESSERA_NCCL_INCLUDE nccl.h HINTS ${TESSERA_CUDA_INCLUDE})
  if(TESSERA_NCCL_INCLUDE)
    set(TESSERA_HAS_NCCL ON)
  endif()
endif()
message(STATUS "NCCL transport: ${TESSERA_HAS_NCCL}")
# cuDNN is loaded at run time; a build needs its headers and those of its frontend, which are downloaded into the build
# folder.
set(TESSERA_HAS_CUDNN OFF)
if(TESSERA_HAS_CUDA AND NOT TESSERA_CUDNN STREQUAL "OFF")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  find_path(TESSERA_CUDNN_HEADERS cudnn.h HINTS ${TESSERA_CUDA_INCLUDE})
  set(TESSERA_CUDNN_INCLUDE ${PROJECT_BINARY_DIR}/cudnn/include)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/fetch_cudnn.py ${PROJECT_BINARY_DIR}/cudnn
                  RESULT_VARIABLE cudnn_failed ERROR_VARIABLE cudnn_why ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT TESSERA_CUDNN_HEADERS)
    set(cudnn_why "cudnn.h was not found")
  endif()
  if(TESSERA_CUDNN_HEADERS AND cudnn_failed EQUAL 0)
    set(TESSERA_HAS_CUDNN ON)
  elseif(TESSERA_CUDNN STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_CUDNN=ON, but ${cudnn_why}")
  else()
    message(STATUS "cuDNN attention is left out: ${cudnn_why}")
  endif()
endif()
message(STATUS "cuDNN attention: ${TESSERA_HAS_CUDNN}")

# tessera_cuda_kernels(target file.cu): compiles the kernels of the file and embeds them in `target` as the byte array
# tessera_kernels_<file>, which ends at tessera_kernels_<file>_end.
function(tessera_cuda_kernels target source)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(path ${source} ABSOLUTE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(
    OUTPUT ${out}.fatbin
    COMMAND ${TESSERA_NVCC} -std=c++20 --expt-relaxed-constexpr -diag-suppress 186 ${TESSERA_NVCC_OPTIMISE} -fatbin -I${PROJECT_SOURCE_DIR}
            -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90
            -MD -MF ${out}.fatbin.d -o ${out}.fatbin ${path}
    DEPENDS ${path}
    DEPFILE ${out}.fatbin.d
    COMMENT "Compiling CUDA kernels ${source}"
    VERBATIM)
  file(CONFIGURE OUTPUT ${out}.S @ONLY CONTENT "    .section .rodata
    .balign 64
    .globl tessera_kernels_@name@
    .globl tessera_kernels_@name@_end
    .hidden tessera_kernels_@name@
    .hidden tessera_kernels_@name@_end
tessera_kernels_@name@:
    .incbin \"@out@.fatbin\"
tessera_kernels_@name@_end:
@TESSERA_ASSEMBLY_NOTES@")
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS ${out}.fatbin)
  target_sources(${target} PRIVATE ${out}.S)
endfunction()
