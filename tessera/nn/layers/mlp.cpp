#include "tessera/nn/layers/mlp.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/pointwise/activations.h"

namespace tessera::nn {
namespace {

using Activation = Tensor (*)(const Tensor&);

Activation activation_named(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 4> kActivations{
      {{"gelu", ops::gelu}, {"gelu_tanh", ops::gelu_tanh}, {"relu", ops::relu}, {"silu", ops::silu}}};
  const auto* found = std::ranges::find(kActivations, name, &std::pair<std::string_view, Activation>::first);
  TESSERA_CHECK(found != kActivations.end(), "Mlp: activation must be gelu, gelu_tanh, relu or silu, got '", name, "'");
  return found->second;
}

Linear first(const MlpOptions& options) {
  return {options.width,
          options.hidden,
          {.bias = options.bias, .init = options.init, .out_meaning = "mlp", .in_meaning = "embed"}};
}

Linear last(const MlpOptions& options) {
  return {options.hidden,
          options.width,
          {.bias = options.bias, .init = options.out_init, .out_meaning = "embed", .in_meaning = "mlp"}};
}

}  // namespace

Mlp::Mlp(const MlpOptions& options)
    : up_proj(add("up_proj", first(options))),
      down_proj(add("down_proj", last(options))),
      activation_(activation_named(options.activation)) {}

Tensor Mlp::forward(const Tensor& x) const {
  const Tensor rows = constrain(x, {"batch", "", "embed"});
  return down_proj.with_bias(constrain(down_proj.product(activation_(up_proj(rows))), {"batch", "sequence", "embed"}));
}

GatedMlp::GatedMlp(const MlpOptions& options)
    : gate_proj(add("gate_proj", first(options))),
      up_proj(add("up_proj", first(options))),
      down_proj(add("down_proj", last(options))) {}

Tensor GatedMlp::forward(const Tensor& x) const {
  const Tensor rows = constrain(x, {"batch", "", "embed"});
  const Tensor hidden = ops::swiglu(gate_proj(rows), up_proj(rows));
  return down_proj.with_bias(constrain(down_proj.product(hidden), {"batch", "sequence", "embed"}));
}

}  // namespace tessera::nn
