// Tests embedding on a GPU: rows at indices, and indices out of range.
#include <gmock/gmock.h>

#include <cmath>

#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_same_bits;

class EmbeddingOnCuda : public testing::OnCuda {};

TEST_F(EmbeddingOnCuda, TakesRowsOfAnyWidth) {
  testing::Random random(3);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI8}) {
    for (const std::int64_t width : {1, 3, 16, 130, 1024}) {
      for (const DType index_dtype : {DType::kI64, DType::kI32}) {
        const Tensor weight = cast(randn({50, width}), dtype);
        const Tensor index = testing::to_tensor(testing::integers(random, {4, 9}, 0, 50).value, index_dtype);
        expect_same_bits(here(out), here(embedding(weight, index)));
        copy_(index, bad);
        graph.replay(stream());
        const Tensor marked = here(out);
        for (std::int64_t i = 0; i < marked.numel(); ++i)
          EXPECT_EQ(std::isnan(marked.data_as<float>()[i]), i / 4 == 1) << "element " << i;
        (void)embedding(weight, there(testing::to_tensor(testing::Array(Shape({3}), 2), DType::kI64)));
        stream().synchronize();  // the graph left no error
      }

    }  // namespace
  }    // namespace tessera::ops
