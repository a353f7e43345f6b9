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
        const Tensor want = embedding(weight, index);
        expect_same_bits(here(embedding(there(weight), there(index))), want);
        expect_same_bits(here(embedding(there(weight), transpose(there(index), 0, 1))),
                         contiguous(transpose(want, 0, 1)));
      }
    }
  }
}

TEST_F(EmbeddingOnCuda, AnIndexOutOfRangeIsAnErrorAtTheNextWait) {
  const Tensor weight = there(randn({10, 4}));
  for (const double bad : {10.0, -1.0}) {
    testing::Array values(Shape({3}), 2);
    values.values[1] = bad;
    const device::Stream side = gpu_.create_stream({.name = "side"});
    const Tensor index = there(testing::to_tensor(values, DType::kI64));
    gpu_.synchronize();
    const tensor::StreamScope scope(side);
    const Tensor out = embedding(weight, index);
    try {
      side.synchronize();
      ADD_FAILURE() << "no error";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("embedding: index"));
    }
    side.reset_error();
    (void)embedding(weight, there(testing::to_tensor(testing::Array(Shape({3}), 2), DType::kI64)));
    side.synchronize();  // the error was cleared
  }
}

TEST_F(EmbeddingOnCuda, AGraphHasNoHostNodeAndMarksARowOutOfRange) {
  const Tensor weight = there(randn({10, 4}));
  testing::Array values(Shape({3}), 2);
  const Tensor index = there(testing::to_tensor(values, DType::kI64));
  values.values[1] = 10;
  const Tensor bad = there(testing::to_tensor(values, DType::kI64));
  gpu_.synchronize();
  const Tensor want = here(embedding(weight, index));  // loads the kernel
  Tensor out;
  const memory::CapturedGraph graph = captured([&] { out = embedding(weight, index); });
  EXPECT_EQ(graph.graph().nodes().size(), 1U);
  graph.replay(stream());
  expect_same_bits(here(out), want);
  copy_(index, bad);
  graph.replay(stream());
  const Tensor marked = here(out);
  for (std::int64_t i = 0; i < marked.numel(); ++i)
    EXPECT_EQ(std::isnan(marked.data_as<float>()[i]), i / 4 == 1) << "element " << i;
  (void)embedding(weight, there(testing::to_tensor(testing::Array(Shape({3}), 2), DType::kI64)));
  stream().synchronize();  // the graph left no error
}

}  // namespace
}  // namespace tessera::ops
