// Losses of rows of logits, and their sum: what cross_entropy and linear_cross_entropy share.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/nn/detail/rows.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// The attributes as a kernel keeps them.
struct CrossEntropyRows {
  explicit CrossEntropyRows(const tensor::Call& call) : CrossEntropyRows(call, call.as<CrossEntropyAttributes>()) {}
  CrossEntropyRows(const tensor::Call& call, const CrossEntropyAttributes& of)
      : op(call.op.name()),
        ignore_index(of.ignore_index),
        smoothing(of.label_smoothing),
        count(of.count),
        is_mean(of.reduction == "mean"),
        is_reduced(of.reduction != "none") {}

  std::string_view op;  // named in errors
  std::int64_t ignore_index;
  double smoothing;
  double count;
  bool is_mean;
  bool is_reduced;

  /// The class of a row; -1: it does not count. Refuses one that is no class.
  [[nodiscard]] std::int64_t target(const Rows& targets, std::int64_t row, std::int64_t classes) const;
  /// What the sum is divided by.
  [[nodiscard]] double divisor(const Rows& targets) const;

  /// The loss of one row of logits, and its logsumexp.
  template <class T>
  double loss(const T* x, std::int64_t classes, std::int64_t target, T& logsumexp) const {
    const auto& kernels = row_kernels<T>();
    const T most = kernels.max(x, classes);
    logsumexp = most + std::log(kernels.sum_exp(x, most, classes));
    if (target < 0) return 0;
    const double all = logsumexp;
    const double of_target = all - static_cast<double>(x[target]);
    if (smoothing == 0) return of_target;
    const double mean = static_cast<double>(kernels.sum(x, classes)) / static_cast<double>(classes);
    return (1 - smoothing) * of_target + smoothing * (all - mean);
  }
  /// dx = by * (softmax(x) - what was wanted) + by_all * softmax(x).
  template <class T>
  void gradient(const T* x, std::int64_t classes, std::int64_t target, T logsumexp, T by, T by_all, T* dx) const {
    if (target < 0) by = 0;
    const T every = by * static_cast<T>(smoothing / static_cast<double>(classes));
    row_kernels<T>().cross_entropy_gradient(x, logsumexp, by + by_all, every, dx, classes);
    if (target >= 0) dx[target] -= by * static_cast<T>(1 - smoothing);
  }
  /// The result from the losses of all rows, added in order.
  [[nodiscard]] double total(const std::vector<double>& losses, const Rows& targets) const;
};

/// Checks the attributes and the targets, which have one index for each row.
void check_cross_entropy(const tensor::Call& call, std::size_t targets, const Shape& rows);
/// What cutting the rows of the loss means.
layout::FactorKind cross_entropy_rows_kind(const tensor::Call& call, bool is_forward);

}  // namespace tessera::ops::detail
