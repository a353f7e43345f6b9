# Open MPI is optional. If its mpi.h is found, the backend mpi is built (comm/backends/mpi). libmpi is loaded at run
# time, so that nothing of it is linked. Other MPI libraries have different handles: only the header of Open MPI is
# accepted.
if(NOT TESSERA_MPI STREQUAL "OFF")
  find_path(TESSERA_MPI_INCLUDE mpi.h PATH_SUFFIXES openmpi/include
    HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib64 /usr/lib ENV MPI_HOME)
  if(TESSERA_MPI_INCLUDE)
    file(STRINGS ${TESSERA_MPI_INCLUDE}/mpi.h _is_open_mpi REGEX "define OPEN_MPI 1")
  endif()
endif()

if(TESSERA_MPI_INCLUDE AND _is_open_mpi)
  set(TESSERA_HAS_MPI ON)
elseif(TESSERA_MPI STREQUAL "ON")
  message(FATAL_ERROR "TESSERA_MPI=ON, but Open MPI's mpi.h was not found. Install libopenmpi-dev, or set TESSERA_MPI=AUTO.")
else()
  set(TESSERA_HAS_MPI OFF)
endif()
message(STATUS "MPI transport: ${TESSERA_HAS_MPI}")
