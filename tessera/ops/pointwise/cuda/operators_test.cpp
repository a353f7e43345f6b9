// Tests the registration of pointwise operators on CUDA. Needs no GPU.
#include <gtest/gtest.h>

#include <string>

#include "tessera/tensor/op_def.h"

namespace tessera::ops::cuda {
namespace {

TEST(PointwiseOnCuda, EveryOperatorHasAKernel) {
  const tensor::DeviceKind cuda = tensor::device_kind("cuda");
  std::size_t count = 0;
  for (const tensor::Operator op : tensor::all_ops()) {
    const bool takes_lists = op->input_lists != 0;  // the updates of optimizers
    if (!op->def.traits.is_pointwise || takes_lists) continue;
    ++count;
    EXPECT_NE(op->kernels[cuda], nullptr) << op->name << " has no CUDA kernel; add its row to pointwise/detail";
  }
  EXPECT_GE(count, 70U);
}

}  // namespace
}  // namespace tessera::ops::cuda
