#include "tessera/tensor/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tessera::tensor::detail {
namespace {

// Random views of one external block: the result equals that of a linear search.
TEST(NearTensors, FindsWhatLooksAtAllWouldFind) {
  std::mt19937_64 random(3);
  const device::Device host = device::Device::get("host");
  std::vector<float> block(1000);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 200; ++i) {
    const auto at = static_cast<std::size_t>(random() % 900);
    const auto size = static_cast<std::int64_t>(random() % (i % 10 == 0 ? 100 : 10));
    tensors.push_back(i % 17 == 0 ? Tensor() : Tensor::wrap(block.data() + at, {size}, DType::kF32, host, nullptr));
  }
  const NearTensors few(tensors, 1);
  const NearTensors many(tensors, 1000);
  for (const Tensor& tensor : tensors) {
    if (!tensor) continue;
    std::multiset<const TensorState*> one;
    std::multiset<const TensorState*> other;
    few.for_each_near(tensor, [&](const Tensor& near) { one.insert(near.state()); });
    many.for_each_near(tensor, [&](const Tensor& near) { other.insert(near.state()); });
    EXPECT_EQ(one, other);
    EXPECT_EQ(one.count(tensor.state()), tensor.numel() > 0 ? 1U : 0U);
  }
}

}  // namespace
}  // namespace tessera::tensor::detail
