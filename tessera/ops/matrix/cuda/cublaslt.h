// cuBLASLt, loaded at first use and not linked. One list names all functions in use. On a machine without the library,
// products throw an error that names the libraries that were tried; all other operators work.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

namespace tessera::ops::cuda {

#define TESSERA_CUBLASLT_FUNCTIONS(X)     \
  X(cublasLtCreate)                       \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)

/// The resolved functions.
struct CublasLt {
#define TESSERA_CUBLASLT_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_CUBLASLT_FUNCTIONS(TESSERA_CUBLASLT_MEMBER)
#undef TESSERA_CUBLASLT_MEMBER
};

/// Fills `table` from the first of these libraries that opens. Returns the reason if none does; empty on success.
std::string load_cublaslt(const std::vector<std::string>& libraries, CublasLt& table);
/// Loads cuBLASLt on the first call. Returns the reason if it is missing; empty on success.
const std::string& why_no_cublaslt();
/// Returns the functions. Throws NotSupported, with the reason and a fix, if the library is missing.
const CublasLt& cublaslt();

/// Throws DeviceError, which names the call, unless it succeeds.
#define TESSERA_CUBLASLT(function, ...)                                                                      \
  do {                                                                                                       \
    const cublasStatus_t tessera_status = ::tessera::ops::cuda::cublaslt().function(__VA_ARGS__);            \
    TESSERA_CHECK_AS(::tessera::DeviceError, tessera_status == CUBLAS_STATUS_SUCCESS, #function,             \
                     " failed: ", ::tessera::ops::cuda::cublaslt().cublasLtGetStatusString(tessera_status)); \
  } while (false)

}  // namespace tessera::ops::cuda
