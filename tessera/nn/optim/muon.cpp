#include "tessera/nn/optim/muon.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/redistribute.h"

namespace tessera::nn {
namespace {

// Coefficients of x, x^3 and x^5 of a step, for singular values x. They raise small values quickly rather than bring
// values exactly to 1.
constexpr std::array kCoefficients{3.4445, -4.7750, 2.0315};
// Elements of an AdamW step have a root mean square of about 0.2 times the learning rate. Elements of an orthogonal
// matrix have 1 / sqrt(longer side).
constexpr double kStepSize = 0.2;
constexpr double kEps = 1e-7;

// Returns x times `by` times `factor`, a tensor of one element; empty: 1.
Tensor scaled(const Tensor& x, double by, const Tensor& factor) { return ops::foreach_mul({&x, 1}, by, factor)[0]; }

// Returns x with all elements on this rank.
Tensor complete(const Tensor& x) {
  return x.has_layout() ? shard::redistribute(x, layout::Layout::replicated(x.layout().mesh())) : x;
}

// Overwrites `to` with `value`, unless the step is skipped.
void assign(const Tensor& to, const Tensor& value, const Tensor& skip) {
  ops::copy_(to, skip ? ops::where(skip, to, value) : value);
}

std::vector<ParameterGroup> checked(std::vector<ParameterGroup> groups, const MuonOptions& options) {
  TESSERA_CHECK(options.newton_schulz_steps >= 1, "Muon: newton_schulz_steps must be at least 1, got ",
                options.newton_schulz_steps);
  for (const ParameterGroup& group : groups) {
    for (const Tensor& parameter : group.parameters) {
      TESSERA_CHECK(!parameter || parameter.ndim() == 2, "Muon: parameters must be matrices, got ",
                    to_string(parameter.dtype()), to_string(parameter.shape()), "; give this one to AdamW");
    }
  }
  return groups;
}

}  // namespace

Tensor orthogonalize(const Tensor& x, int steps) {
  TESSERA_CHECK(x.ndim() == 2, "orthogonalize: x must have 2 dimensions, got ", to_string(x.shape()));
  const bool is_tall = x.size(0) > x.size(1);
  const auto& [linear, cubic, quintic] = kCoefficients;
  // Products over the shorter side are the smaller ones.
  Tensor y = is_tall ? ops::transpose(x, 0, 1) : x;
  y = ops::div(y, ops::add(ops::norm(y), kEps));
  for (int i = 0; i < steps; ++i) {
    const Tensor square = ops::mm(y, ops::transpose(y, 0, 1));
    const Tensor polynomial = ops::add(ops::mul(square, cubic), ops::mul(ops::mm(square, square), quintic));
    y = ops::add(ops::mul(y, linear), ops::mm(polynomial, y));
  }
  return is_tall ? ops::transpose(y, 0, 1) : y;
}

Muon::Muon(std::vector<ParameterGroup> groups, const MuonOptions& options)
    : Optimizer({.name = "Muon",
                 .learning_rate = options.learning_rate,
                 .weight_decay = options.weight_decay,
                 .state_names = {"first"}},
                checked(std::move(groups), options)),
      options_(options) {}

void Muon::update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) {
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor parameter = group.parameters[i].detach();
    const Tensor& momentum = group.state[0][i];
    const Tensor gradient = scalars.clip_factor ? scaled(gradients[i], 1, scalars.clip_factor) : gradients[i];
    const Tensor sum = ops::add(ops::mul(momentum, options_.momentum), gradient);
    const Tensor ahead = options_.is_nesterov ? ops::add(gradient, ops::mul(sum, options_.momentum)) : sum;
    Tensor direction = orthogonalize(complete(ahead), options_.newton_schulz_steps);
    if (parameter.has_layout()) direction = shard::redistribute(direction, parameter.layout());
    const double size = kStepSize * std::sqrt(static_cast<double>(std::max(parameter.size(0), parameter.size(1))));
    const Tensor kept = ops::sub(parameter, scaled(parameter, group.weight_decay, scalars.learning_rate));
    assign(parameter, ops::sub(kept, scaled(direction, size, scalars.learning_rate)), scalars.skip);
    assign(momentum, sum, scalars.skip);
  }
}

}  // namespace tessera::nn
