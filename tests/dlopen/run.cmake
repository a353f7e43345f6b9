# cmake -DLIBRARY=... -DSOURCE=... -DWORK=... -DCC=... -DPYTHON=... -P run.cmake
# Loads the library by dlopen, from a plain C program and from Python's ctypes.
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${CC} -Wall -Wextra -Werror -o ${WORK}/load ${SOURCE}/main.c -pthread -ldl COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/load ${LIBRARY} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PYTHON} -c "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded from Python')" ${LIBRARY}
                COMMAND_ERROR_IS_FATAL ANY)
