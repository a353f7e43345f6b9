#include "tessera/nn/layers/norm.h"

#include "tessera/ops/nn/norm.h"

namespace tessera::nn {

LayerNorm::LayerNorm(std::int64_t width, const NormOptions& options) : eps_(options.eps) {
  weight = parameter("weight", {width}, {.init = Init::ones(), .meaning = {options.meaning}, .decays = false});
  if (!options.bias) return;
  bias = parameter("bias", {width}, {.init = Init::zeros(), .meaning = {options.meaning}, .decays = false});
}

Tensor LayerNorm::forward(const Tensor& x) const { return ops::layer_norm(x, weight, bias, eps_); }

RMSNorm::RMSNorm(std::int64_t width, const NormOptions& options) : eps_(options.eps) {
  weight = parameter("weight", {width}, {.init = Init::ones(), .meaning = {options.meaning}, .decays = false});
}

Tensor RMSNorm::forward(const Tensor& x) const { return ops::rms_norm(x, weight, eps_); }

}  // namespace tessera::nn
