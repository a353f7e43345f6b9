// Updates of many tensors in one launch: what optimizers are made of.
//
// Numbers that change from step to step (the step itself, the learning rate, the clip factor, whether to skip) are
// tensors of one element, read when the work runs: a captured step stays true when it is replayed. Functions whose
// names end in _ write in place; lists are of equal length, and what belongs together has one shape.
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
  double by = 1;  ///< what the second list, or every element, is multiplied with
  TESSERA_ATTRIBUTES(by)
};
/// Attributes of foreach_norm.
struct ForeachNormAttributes {
  double p = 2;  ///< which norm: above 0, infinity for the largest
  TESSERA_ATTRIBUTES(p)
};
/// Attributes of grad_norm.
struct GradNormAttributes {
  double max_norm = 1;  ///< above which gradients are scaled down
  double p = 2;         ///< which norm: above 0, infinity for the largest
  TESSERA_ATTRIBUTES(max_norm, p)
};
/// Attributes of sgd and sgd_momentum.
struct SgdAttributes {
  double momentum = 0;       ///< share of the running sum that stays
  double weight_decay = 0;   ///< share of each parameter that is added to its gradient
  bool is_nesterov = false;  ///< looks one step ahead along the momentum
  TESSERA_ATTRIBUTES(momentum, weight_decay, is_nesterov)
};
/// Attributes of adamw.
struct AdamWAttributes {
  double beta1 = 0.9;          ///< share of the mean of gradients that stays
  double beta2 = 0.999;        ///< of the mean of their squares
  double eps = 1e-8;           ///< added to the root of that mean
  double weight_decay = 0.01;  ///< share of each parameter, times the learning rate, that is taken away
  TESSERA_ATTRIBUTES(beta1, beta2, eps, weight_decay)
};

/// Each of a plus `by` times each of b.
TESSERA_API std::vector<Tensor> foreach_add(std::span<const Tensor> a, std::span<const Tensor> b, double by = 1);
/// Likewise, in a.
TESSERA_API void foreach_add_(std::span<const Tensor> a, std::span<const Tensor> b, double by = 1);
/// Each times `by`, and times `factor`, a tensor of one element, where there is one.
TESSERA_API std::vector<Tensor> foreach_mul(std::span<const Tensor> tensors, double by, const Tensor& factor = {});
/// Likewise, in place.
TESSERA_API void foreach_mul_(std::span<const Tensor> tensors, double by, const Tensor& factor = {});
/// The p-norm of each, in f32 (f64 for f64): the root of the sum of squares, for p = 2; the largest, for infinity.
TESSERA_API std::vector<Tensor> foreach_norm(std::span<const Tensor> tensors, double p = 2);

/// The norm of all gradients together, and what to multiply them with so that it is at most some bound.
struct GradNorm {
  Tensor norm;    ///< before
  Tensor factor;  ///< min(1, max_norm / norm)
};
/// Computes it, as a p-norm, and changes nothing: optimizers take the factor.
TESSERA_API GradNorm grad_norm(std::span<const Tensor> grads, double max_norm, double p = 2);
/// Computes it and scales the gradients; the norm before.
TESSERA_API Tensor clip_grad_norm_(std::span<const Tensor> grads, double max_norm, double p = 2);

/// What an optimizer step reads from device memory.
struct StepScalars {
  Tensor learning_rate = {};  ///< must be there
  Tensor clip_factor = {};    ///< gradients are multiplied with it; none: 1
  Tensor skip = {};           ///< not zero: nothing is changed, the step not counted; none: 0
};
/// Gradient descent in place; with momentum where `momenta` are given.
TESSERA_API void sgd_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> momenta,
                      const StepScalars& scalars, const SgdAttributes& how = {});
/// AdamW in place. `step`, one i64, counts the steps done and is counted up.
TESSERA_API void adamw_(std::span<const Tensor> params, std::span<const Tensor> grads, std::span<const Tensor> first,
                        std::span<const Tensor> second, const Tensor& step, const StepScalars& scalars,
                        const AdamWAttributes& how = {});

}  // namespace tessera::ops
