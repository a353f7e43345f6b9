// cuBLASLt, opened at first use. Nothing of it is linked: one list names every function used, and a machine without the
// library can do everything but products, which say what was looked for.
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

/// Every function used, resolved.
struct CublasLt {
#define TESSERA_CUBLASLT_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_CUBLASLT_FUNCTIONS(TESSERA_CUBLASLT_MEMBER)
#undef TESSERA_CUBLASLT_MEMBER
};

/// Fills `table` from the first of these libraries that opens. Returns why not, naming what was tried; empty: it did.
std::string load_cublaslt(const std::vector<std::string>& libraries, CublasLt& table);
/// Why there is no cuBLASLt in this process; empty: there is. Opens it at the first call.
const std::string& why_no_cublaslt();
/// The functions; NotSupported, with what was tried and what helps, when there are none.
const CublasLt& cublaslt();

/// Throws DeviceError naming the call unless it succeeded.
#define TESSERA_CUBLASLT(function, ...)                                                                      \
  do {                                                                                                       \
    const cublasStatus_t tessera_status = ::tessera::ops::cuda::cublaslt().function(__VA_ARGS__);            \
    TESSERA_CHECK_AS(::tessera::DeviceError, tessera_status == CUBLAS_STATUS_SUCCESS, #function,             \
                     " failed: ", ::tessera::ops::cuda::cublaslt().cublasLtGetStatusString(tessera_status)); \
  } while (false)

}  // namespace tessera::ops::cuda
