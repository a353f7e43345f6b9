#include "tessera/nn/layers/linear.h"

#include "tessera/base/error.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options) {
  TESSERA_CHECK(in > 0 && out > 0, "Linear: in and out must be at least 1, got ", in, " and ", out);
  weight = parameter("weight", {out, in}, {.init = options.init, .meaning = {options.out_meaning, options.in_meaning}});
  if (!options.bias) return;
  bias = parameter("bias", {out}, {.init = Init::zeros(), .meaning = {options.out_meaning}, .decays = false});
}

Linear::Linear(const Parameter& shared_weight) { weight = share("weight", shared_weight); }

Tensor Linear::forward(const Tensor& x) const { return detail::adapted(*state(), x, ops::linear(x, weight, bias)); }

Tensor Linear::product(const Tensor& x) const {
  return bias ? detail::adapted(*state(), x, ops::linear(x, weight)) : (*this)(x);
}

Tensor Linear::with_bias(const Tensor& x) const { return bias ? ops::add(x, bias) : x; }

}  // namespace tessera::nn
