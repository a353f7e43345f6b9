// Cross entropy of class scores against class indices; and of scores that are a linear map of something, without ever
// holding all of them.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// How losses of rows become the result.
struct CrossEntropyAttributes {
  std::int64_t ignore_index = -100;  ///< rows of this target count for nothing
  double label_smoothing = 0;        ///< share of the target that is spread over all classes
  std::string reduction = "mean";    ///< "mean" over rows that count, "sum", or "none": a loss for each row
  double count = 0;                  ///< of "mean": how many rows count; 0: those of `targets`
  /// How many classes there are where a part of them is given; 0: all are. The loss of a part, of reduction "none", is
  /// what it takes off: losses of all parts and the logsumexp over all classes add up to the loss.
  std::int64_t classes = 0;
  layout::IndexMap class_map = {};  ///< which of the classes are given
  TESSERA_ATTRIBUTES(ignore_index, label_smoothing, reduction, count, classes, class_map)
};

/// Loss of logits [..., classes] against targets [...] (i64 or i32), in f32 (f64 for f64). The mean of no rows is 0.
TESSERA_API Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyAttributes& how = {});
/// The loss, and the logsumexp of each row that its gradient needs.
struct CrossEntropyResult {
  Tensor loss = {};       ///< a scalar, or one value a row
  Tensor logsumexp = {};  ///< one value a row
};
/// Likewise, with the logsumexp.
TESSERA_API CrossEntropyResult cross_entropy_with_logsumexp(const Tensor& logits, const Tensor& targets,
                                                            const CrossEntropyAttributes& how = {});
/// The gradient of the logits, from that of the loss and, where there is one, of the logsumexp.
TESSERA_API Tensor cross_entropy_backward(const CrossEntropyResult& grad, const Tensor& logits, const Tensor& targets,
                                          const Tensor& logsumexp, const CrossEntropyAttributes& how = {});

/// Of `count_targets`.
struct CountTargetsAttributes {
  std::int64_t ignore_index = -100;  ///< targets that do not count
  DType dtype = DType::kF32;         ///< of the result: f32 or f64
  TESSERA_ATTRIBUTES(ignore_index, dtype)
};
/// How many targets are not the ignored index, but at least 1: a scalar, whole on every rank that holds some of them.
TESSERA_API Tensor count_targets(const Tensor& targets, std::int64_t ignore_index, DType dtype = DType::kF32);

/// Loss of logits x weight^T, for x [..., features] and weight [classes, features]. Logits are made a few rows at a
/// time. If both x and weight are to get gradients, these are computed along with the loss and kept; where classes are
/// cut, logits are made again for the gradient instead.
TESSERA_API Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                                        const CrossEntropyAttributes& how = {});
/// Gradients of linear_cross_entropy.
struct LinearCrossEntropyGradients {
  Tensor x;       ///< of the rows
  Tensor weight;  ///< summed over rows
};
/// From the gradient of the loss (and of the logsumexp) and the logsumexp that the loss kept.
TESSERA_API LinearCrossEntropyGradients linear_cross_entropy_backward(const CrossEntropyResult& grad, const Tensor& x,
                                                                      const Tensor& weight, const Tensor& targets,
                                                                      const Tensor& logsumexp,
                                                                      const CrossEntropyAttributes& how = {});

}  // namespace tessera::ops
