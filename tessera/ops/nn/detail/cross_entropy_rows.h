// Losses of rows of logits, and their sum: what cross_entropy and linear_cross_entropy share.
#pragma once

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

/// The attributes as a kernel keeps them.
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

  std::string_view op;  // named in errors
  std::int64_t ignore_index;
  double smoothing;
  double count;
  bool is_mean;
  bool is_reduced;
  std::int64_t all_classes;    ///< 0: rows have all
  layout::IndexMap class_map;  ///< those of a row, of a part

  /// The class of a row; -1: it does not count. Refuses one that is no class. `classes`: of a row.
  [[nodiscard]] std::int64_t target(const Rows& targets, std::int64_t row, std::int64_t classes) const;
  /// What the sum is divided by.
  [[nodiscard]] double divisor(const Rows& targets) const;

  /// Where the target is in a row of logits; -1: elsewhere, or nowhere.
  [[nodiscard]] std::int64_t place(std::int64_t target) const {
    return all_classes == 0 || target < 0 ? target : class_map.local(target).value_or(-1);
  }
  /// What smoothing wants of each class.
  [[nodiscard]] double share(std::int64_t classes) const {
    return smoothing / static_cast<double>(all_classes == 0 ? classes : all_classes);
  }

  /// The loss of one row of logits, or what a part takes off it, and its logsumexp.
  template <class T>
  double loss(const T* x, std::int64_t classes, std::int64_t target, T& logsumexp) const {
    const auto& kernels = row_kernels<T>();
    const T most = kernels.max(x, classes);
    const bool has_part = all_classes > 0;
    // Of nothing that is likely at all, or of a part that has nothing, the sum of exponentials is 0.
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
  /// dx = by * (softmax(x) - what was wanted) + by_all * softmax(x).
  template <class T>
  void gradient(const T* x, std::int64_t classes, std::int64_t target, T logsumexp, T by, T by_all, T* dx) const {
    if (target < 0) by = 0;
    const T every = by * static_cast<T>(share(classes));
    row_kernels<T>().cross_entropy_gradient(x, logsumexp, by + by_all, every, dx, classes);
    const std::int64_t at = place(target);
    if (at >= 0) dx[at] -= by * static_cast<T>(1 - smoothing);
  }
  /// The result from the losses of all rows, added in order.
  [[nodiscard]] double total(const std::vector<double>& losses, const Rows& targets) const;
};

/// Checks the attributes and the targets, which have one index for each row. `classes`: that are given.
void check_cross_entropy(const tensor::Call& call, std::size_t targets, const Shape& rows, std::int64_t classes);
/// Refuses a part of the classes where the loss is to be reduced.
void check_part_of_loss(const tensor::Call& call);
/// What cutting the rows of the loss means.
layout::FactorKind cross_entropy_rows_kind(const tensor::Call& call, bool is_forward);
/// The local form where classes may be cut: `map` says which of all `classes` a rank has.
tensor::Attributes localized_classes(const tensor::LocalizeCall& call, std::int64_t classes,
                                     const layout::IndexMap& map);
/// "mean" over rows that are counted first, as a sum of what is divided already: so that rows may be cut.
void divide_mean(Tensor& grad, const Tensor& targets, CrossEntropyAttributes& how);

}  // namespace tessera::ops::detail
