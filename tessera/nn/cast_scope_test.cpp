// Parameters that are cast once for several uses: fewer casts, the same values.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/layers/linear.h"
#include "tessera/nn/meta.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call_observer.h"

namespace tessera::nn {
namespace {

Linear bf16_linear() {
  Linear linear(8, 8);
  distribute(linear, {}, standard_sharding({}, false), {.compute_dtype = DType::kBF16});
  return linear;
}

void take_micro_batches(const Linear& linear, const Tensor& x) {
  for (int i = 0; i < 3; ++i) {
    const Tensor loss = ops::sum(linear(x));
    release_gathered(linear);
    autograd::backward(loss);
  }
}

// Counts casts of parameters.
class CastCount final : public tensor::CallObserver {
 public:
  void called(const tensor::Call& call, const tensor::Cost& /*cost*/) override {
    if (call.op.name() == "cast" && call.inputs[0].dtype() == DType::kF32) ++count;
  }
  int count = 0;
};

TEST(CastScope, CastsEachParameterOnce) {
  const Meta meta;
  const Linear linear = bf16_linear();
  const Tensor x = ops::zeros({4, 8}, {.dtype = DType::kBF16});
  for (const bool is_scoped : {true, false}) {
    CastCount casts;
    const tensor::CallObserverScope observed(casts);
    std::optional<CastScope> scope;
    if (is_scoped) scope.emplace(linear);
    take_micro_batches(linear, x);
    if (is_scoped) {
      EXPECT_EQ(casts.count, 2) << "weight and bias";
    } else {
      EXPECT_GT(casts.count, 5);
    }
  }
  EXPECT_EQ(gathered_bytes(linear).now, 0);
}

TEST(CastScope, ChangesNoValue) {
  const Linear linear = bf16_linear();
  const Tensor x = ops::randn({4, 8}, {.dtype = DType::kBF16});
  std::vector<Tensor> gradients;
  for (const bool is_scoped : {true, false}) {
    std::optional<CastScope> scope;
    if (is_scoped) scope.emplace(linear);
    take_micro_batches(linear, x);
    for (const Tensor& leaf : linear.parameters()) {
      gradients.push_back(autograd::grad(leaf));
      autograd::set_grad(leaf, {});
    }
  }
  ASSERT_EQ(gradients.size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(ops::equal(gradients[i], gradients[i + 2]));
}

// The next scope reads the parameters that an optimizer has changed.
TEST(CastScope, ReleasesItsValuesAtTheEnd) {
  const Linear linear = bf16_linear();
  const Tensor x = ops::ones({1, 8}, {.dtype = DType::kBF16});
  const autograd::NoGrad no_grad;
  const auto result = [&] {
    const CastScope scope(linear);
    return ops::item(ops::sum(linear(x))).as_double();
  };
  for (const Tensor& leaf : linear.parameters()) ops::fill_(leaf.detach(), 0);
  EXPECT_EQ(result(), 0);
  for (const Tensor& leaf : linear.parameters()) ops::fill_(leaf.detach(), 1);
  EXPECT_EQ(result(), 72);
  EXPECT_EQ(gathered_bytes(linear).now, 0);
}

}  // namespace
}  // namespace tessera::nn
