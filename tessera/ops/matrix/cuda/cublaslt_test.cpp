#include "tessera/ops/matrix/cuda/cublaslt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::ops::cuda {
namespace {

using ::testing::HasSubstr;

TEST(CublasLtLibrary, NamesEverythingThatWasTried) {
  CublasLt table;
  const std::string why = load_cublaslt({"libnosuch.so.1", "/nowhere/libnosuch.so"}, table);
  EXPECT_THAT(why, HasSubstr("libnosuch.so.1"));
  EXPECT_THAT(why, HasSubstr("/nowhere/libnosuch.so"));
}

TEST(CublasLtLibrary, NamesFunctionsThatALibraryLacks) {
  CublasLt table;
  const std::string why = load_cublaslt({"libc.so.6"}, table);
  EXPECT_THAT(why, HasSubstr("lacks"));
  EXPECT_THAT(why, HasSubstr("cublasLtMatmul"));
}

TEST(CublasLtLibrary, HasEveryFunctionUsed) {
  if (!why_no_cublaslt().empty()) GTEST_SKIP() << why_no_cublaslt();
  EXPECT_NE(cublaslt().cublasLtMatmul, nullptr);
  EXPECT_STRNE(cublaslt().cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED), "");
}

}  // namespace
}  // namespace tessera::ops::cuda
