// Losses of rows of logits and their sum, for cross_entropy and linear_cross_entropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/nn/detail/rows.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// The attributes in the form of a kernel.
struct CrossEntropyRows {
  explicit CrossEntropyRows(const tensor::Call& call) : CrossEntropyRows(call, call.as<CrossEntropyAttributes>()) {}
  CrossEntropyRows(const tensor::Call& call, const CrossEntropyAttributes& of)
      : op(call.op.name()),
        ignore_index(of.ignore_index),
        smoothing(of.label_smoothing),
        count(of.count),
        is_mean(of.reduction == "mean"),
        is_reduced(of.reduction != "none"),
        all_classes(of.classes),
        class_map(of.class_map) {}

  std::string_view op;  // name in errors
  std::int64_t ignore_index;
  double smoothing;
  double count;
  bool is_mean;
  bool is_reduced;
  std::int64_t all_classes;    ///< number of classes of all ranks; 0: each row has all classes
  layout::IndexMap class_map;  ///< classes of a row of a shard

  /// Returns the class of a row; -1 if the row does not count. Throws if the target is not one of `classes`.
  [[nodiscard]] std::int64_t target(const Rows& targets, std::int64_t row, std::int64_t classes) const;
  /// Returns the divisor of the sum.
  [[nodiscard]] double divisor(const Rows& targets) const;

  /// Returns the position of the target in a row of logits; -1 if it is on another rank or does not count.
  [[nodiscard]] std::int64_t place(std::int64_t target) const {
    return all_classes == 0 || target < 0 ? target : class_map.local(target).value_or(-1);
  }
  /// Returns the target probability of each class due to smoothing.
  [[nodiscard]] double share(std::int64_t classes) const {
    return smoothing / static_cast<double>(all_classes == 0 ? classes : all_classes);
  }

  /// Returns the loss of one row of logits and its logsumexp. For a shard of the classes, its contribution.
  template <class T>
  double loss(const T* x, std::int64_t classes, std::int64_t target, T& logsumexp) const {
    const auto& kernels = row_kernels<T>();
    const T most = kernels.max(x, classes);
    const bool has_part = all_classes > 0;
    // Without a finite logit, or without classes, the sum of exponentials is 0.
    const bool is_nothing = most == -std::numeric_limits<T>::infinity();
    logsumexp = is_nothing ? most : most + std::log(kernels.sum_exp(x, most, classes));
    if (target < 0) return 0;
    const std::int64_t at = place(target);
    double wanted = at < 0 ? 0 : static_cast<double>(x[at]);
    if (smoothing > 0) {
      wanted = (1 - smoothing) * wanted + share(classes) * static_cast<double>(kernels.sum(x, classes));
    }
    return has_part ? -wanted : static_cast<double>(logsumexp) - wanted;
  }
  /// Computes dx = by * (softmax(x) - target probabilities) + by_all * softmax(x).
  template <class T>
  void gradient(const T* x, std::int64_t classes, std::int64_t target, T logsumexp, T by, T by_all, T* dx) const {
    if (target < 0) by = 0;
    const T every = by * static_cast<T>(share(classes));
    row_kernels<T>().cross_entropy_gradient(x, logsumexp, by + by_all, every, dx, classes);
    const std::int64_t at = place(target);
    if (at >= 0) dx[at] -= by * static_cast<T>(1 - smoothing);
  }
  /// Returns the result for the losses of all rows, added in order.
  [[nodiscard]] double total(const std::vector<double>& losses, const Rows& targets) const;
};

/// Returns the number of rows whose logits linear_cross_entropy holds at a time: enough for an efficient product, but
/// few enough to keep the logits small (64 MiB in f32).
inline std::int64_t rows_of_chunk(std::int64_t rows, std::int64_t classes) {
  const std::int64_t most = (std::int64_t{1} << 24) / std::max<std::int64_t>(classes, 1);
  return std::min(std::clamp<std::int64_t>(most, 64, 2048), std::max<std::int64_t>(rows, 1));
}
/// Checks the attributes and the targets, which have one index per row. `classes` is the number of logits per row.
void check_cross_entropy(const tensor::Call& call, std::size_t targets, const Shape& rows, std::int64_t classes);
/// Throws for a shard of the classes if the loss is reduced.
void check_part_of_loss(const tensor::Call& call);
/// Returns the kind of the rows of the loss.
layout::FactorKind cross_entropy_rows_kind(const tensor::Call& call, bool is_forward);
/// Returns the local attributes if classes may be sharded. `map` holds the classes of this rank.
tensor::Attributes localized_classes(const tensor::LocalizeCall& call, std::int64_t classes,
                                     const layout::IndexMap& map);
/// Converts a mean over rows to a sum of gradients that are already divided, so that rows may be sharded.
void divide_mean(Tensor& grad, const Tensor& targets, CrossEntropyAttributes& how);

}  // namespace tessera::ops::detail
