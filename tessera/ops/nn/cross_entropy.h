// Cross entropy of class scores and class indices. linear_cross_entropy computes the scores as a linear map and never
// holds all of them in memory.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Parameters of the loss: ignored targets, smoothing and reduction.
struct CrossEntropyAttributes {
  std::int64_t ignore_index = -100;  ///< rows with this target do not count
  double label_smoothing = 0;        ///< fraction of the target that is spread over all classes
  std::string reduction = "mean";    ///< "mean" over the rows that count, "sum", or "none" (a loss per row)
  double count = 0;                  ///< "mean": number of rows that count; 0: those of `targets`
  /// Global number of classes if the logits hold a shard of the classes; 0: the logits hold all classes. The loss of a
  /// shard (reduction "none") is its contribution: the losses of all shards and the logsumexp over all classes add up
  /// to the loss.
  std::int64_t classes = 0;
  layout::IndexMap class_map = {};  ///< classes that the logits hold
  TESSERA_ATTRIBUTES(ignore_index, label_smoothing, reduction, count, classes, class_map)
};

/// Returns the loss of logits [..., classes] for targets [...] (i64 or i32), in f32 (f64 for f64). The mean of no rows
/// is 0. A target that is neither a class nor ignored is an error at the next wait on the host. On CUDA, the loss of
/// its row and the gradients of its logits are nan.
TESSERA_API Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyAttributes& how = {});
/// Loss, and the logsumexp of each row, which its gradient needs.
struct CrossEntropyResult {
  Tensor loss = {};       ///< a scalar, or one value per row
  Tensor logsumexp = {};  ///< one value per row
};
/// Returns the loss and the logsumexp of each row.
TESSERA_API CrossEntropyResult cross_entropy_with_logsumexp(const Tensor& logits, const Tensor& targets,
                                                            const CrossEntropyAttributes& how = {});
/// Returns the gradient of the logits from the gradient of the loss. `grad.logsumexp` may be empty.
TESSERA_API Tensor cross_entropy_backward(const CrossEntropyResult& grad, const Tensor& logits, const Tensor& targets,
                                          const Tensor& logsumexp, const CrossEntropyAttributes& how = {});

/// Attributes of `count_targets`.
struct CountTargetsAttributes {
  std::int64_t ignore_index = -100;  ///< target that does not count
  DType dtype = DType::kF32;         ///< dtype of the result: f32 or f64
  TESSERA_ATTRIBUTES(ignore_index, dtype)
};
/// Returns the number of targets other than `ignore_index`, but at least 1. The scalar is the global count on every
/// rank with targets.
TESSERA_API Tensor count_targets(const Tensor& targets, std::int64_t ignore_index, DType dtype = DType::kF32);

/// Returns the loss of logits x weight^T, for x [..., features] and weight [classes, features]. Computes the logits a
/// few rows at a time. If x and weight both require gradients, these are computed with the loss and kept. If the
/// classes are sharded, the gradient recomputes the logits instead.
TESSERA_API Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                                        const CrossEntropyAttributes& how = {});
/// Gradients of linear_cross_entropy.
struct LinearCrossEntropyGradients {
  Tensor x;       ///< gradient of the rows
  Tensor weight;  ///< gradient of the weight, summed over rows
};
/// Computes the gradients from the gradient of the loss (and of the logsumexp) and the logsumexp that the loss kept.
TESSERA_API LinearCrossEntropyGradients linear_cross_entropy_backward(const CrossEntropyResult& grad, const Tensor& x,
                                                                      const Tensor& weight, const Tensor& targets,
                                                                      const Tensor& logsumexp,
                                                                      const CrossEntropyAttributes& how = {});

}  // namespace tessera::ops
