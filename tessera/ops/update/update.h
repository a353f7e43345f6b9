// Updates of many tensors in one launch, for optimizers.
//
// Values that change from step to step (step, learning rate, clip factor, skip flag) are tensors of one element. They
// are read when the work runs, so a replayed step uses current values. Functions whose names end in _ write in place.
// Lists have equal length, and tensors at the same index have the same shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Attributes of foreach_add and foreach_mul.
struct ForeachAttributes {
  double by = 1;  ///< factor of the second list, or of every element
  TESSERA_ATTRIBUTES(by)
};
/// Attributes of foreach_norm.
struct ForeachNormAttributes {
  double p = 2;  ///< order of the norm, above 0; infinity gives the largest absolute value
  TESSERA_ATTRIBUTES(p)
};
/// Attributes of grad_norm.
struct GradNormAttributes {
  double max_norm = 1;  ///< gradients with a larger norm are scaled down
  double p = 2;         ///< order of the norm, above 0; infinity gives the largest absolute value
  TESSERA_ATTRIBUTES(max_norm, p)
};
/// Attributes of sgd and sgd_momentum.
struct SgdAttributes {
  double momentum = 0;       ///< factor of the running sum
  double weight_decay = 0;   ///< factor of the parameter that is added to its gradient
  bool is_nesterov = false;  ///< looks one step ahead along the momentum
  TESSERA_ATTRIBUTES(momentum, weight_decay, is_nesterov)
};
/// Attributes of adamw.
struct AdamWAttributes {
  double beta1 = 0.9;          ///< decay of the mean of gradients
  double beta2 = 0.999;        ///< decay of the mean of squared gradients
  double eps = 1e-8;           ///< added to the root of the mean of squares
  double weight_decay = 0.01;  ///< each parameter is reduced by this times the learning rate
  TESSERA_ATTRIBUTES(beta1, beta2, eps, weight_decay)
};
/// Attributes of lion.
struct LionAttributes {
  double beta1 = 0.9;       ///< weight of the mean in the direction of the step
  double beta2 = 0.99;      ///< decay of the mean of gradients
  double weight_decay = 0;  ///< each parameter is reduced by this times the learning rate
  TESSERA_ATTRIBUTES(beta1, beta2, weight_decay)
};

/// Returns a[i] + by * b[i] for each i.
TESSERA_API std::vector<Tensor> foreach_add(std::span<const Tensor> a, std::span<const Tensor> b, double by = 1);
/// Adds by * b[i] to a[i] for each i.
TESSERA_API void foreach_add_(std::span<const Tensor> a, std::span<const Tensor> b, double by = 1);
/// Returns each tensor times `by`, and times `factor` if given. `factor` has one element.
TESSERA_API std::vector<Tensor> foreach_mul(std::span<const Tensor> tensors, double by, const Tensor& factor = {});
/// Multiplies each tensor by `by`, and by `factor` if given.
TESSERA_API void foreach_mul_(std::span<const Tensor> tensors, double by, const Tensor& factor = {});
/// Returns the p-norm of each tensor, in f32 (f64 for f64). p = infinity gives the largest absolute value.
TESSERA_API std::vector<Tensor> foreach_norm(std::span<const Tensor> tensors, double p = 2);

/// The norm of all gradients together, and the factor that scales them down to a maximum norm.
struct GradNorm {
  Tensor norm;    ///< before scaling
  Tensor factor;  ///< min(1, max_norm / norm)
};
/// Returns the p-norm of all gradients and the clip factor. Changes no gradient: optimizers apply the factor.
TESSERA_API GradNorm grad_norm(std::span<const Tensor> grads, double max_norm, double p = 2);
/// Scales the gradients to a p-norm of at most `max_norm`. Returns the norm before scaling.
TESSERA_API Tensor clip_grad_norm_(std::span<const Tensor> grads, double max_norm, double p = 2);

/// Values of an optimizer step in device memory.
struct StepScalars {
  Tensor learning_rate = {};  ///< required
  Tensor clip_factor = {};    ///< factor of the gradients; 1 by default
  Tensor skip = {};           ///< if not 0, the step changes nothing and is not counted; 0 by default
};
/// Runs a step of gradient descent in place, with momentum if `momenta` is not empty.
TESSERA_API void sgd_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> momenta,
                      const StepScalars& scalars, const SgdAttributes& how = {});
/// Runs a step of AdamW in place. `step`, one i64, counts completed steps; this call increments it.
TESSERA_API void adamw_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> first,
                        std::span<const Tensor> second, const Tensor& step, const StepScalars& scalars,
                        const AdamWAttributes& how = {});
/// Runs a step of Lion in place: each element moves by the learning rate, in the direction of the sign of
/// beta1 * mean + (1 - beta1) * gradient.
TESSERA_API void lion_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> means,
                       const StepScalars& scalars, const LionAttributes& how = {});

}  // namespace tessera::ops
