#include "tessera/ops/nn/detail/cross_entropy_rows.h"

#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::ops::detail {

std::int64_t CrossEntropyRows::target(const Rows& targets, std::int64_t row, std::int64_t classes) const {
  std::int64_t one[1];
  const std::int64_t target = *targets.read(row, one);
  if (target == ignore_index) return -1;
  if (all_classes > 0) classes = all_classes;
  TESSERA_CHECK(target >= 0 && target < classes, op, ": target must be in [0, ", classes, ") or ignore_index (",
                ignore_index, "), got ", target, " in row ", row);
  return target;
}

double CrossEntropyRows::divisor(const Rows& targets) const {
  if (!is_mean) return 1;
  if (count > 0) return count;
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < targets.count(); ++row) {
    std::int64_t one[1];
    counted += *targets.read(row, one) != ignore_index ? 1 : 0;
  }
  return static_cast<double>(std::max<std::int64_t>(counted, 1));
}

double CrossEntropyRows::total(const std::vector<double>& losses, const Rows& targets) const {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / divisor(targets);
}

void check_cross_entropy(const tensor::Call& call, std::size_t at, const Shape& rows, std::int64_t classes) {
  const auto& how = call.as<CrossEntropyAttributes>();
  const Tensor& targets = call.inputs[at];
  TESSERA_CHECK_CALL(call, targets.shape() == rows, "targets must have the shape of the rows, ", rows, ", got ",
                     targets.shape());
  TESSERA_CHECK_CALL(call, targets.dtype() == DType::kI64 || targets.dtype() == DType::kI32,
                     "targets must be class indices in i64 or i32, got ", targets.dtype());
  TESSERA_CHECK_CALL(call, how.reduction == "mean" || how.reduction == "sum" || how.reduction == "none",
                     "reduction must be mean, sum or none, got '", how.reduction, "'");
  TESSERA_CHECK_CALL(call, how.label_smoothing >= 0 && how.label_smoothing <= 1,
                     "label_smoothing must be in [0, 1], got ", how.label_smoothing);
  TESSERA_CHECK_CALL(call, how.count >= 0, "count must be at least 0, got ", how.count);
  TESSERA_CHECK_CALL(call, how.classes == 0 || (how.classes > 0 && how.class_map.size() == classes),
                     "class map must fit logits of ", classes, " classes, got a map of ", how.class_map.size(), " of ",
                     how.classes, " classes");
}

void check_part_of_loss(const tensor::Call& call) {
  const auto& how = call.as<CrossEntropyAttributes>();
  TESSERA_CHECK_CALL(call, how.classes == 0 || how.reduction == "none",
                     "a loss over a subset of the classes requires reduction none, got '", how.reduction, "'");
}

layout::FactorKind cross_entropy_rows_kind(const tensor::Call& call, bool is_forward) {
  const auto& how = call.as<CrossEntropyAttributes>();
  if (how.reduction == "mean" && how.count == 0) {  // every row must be counted
    return is_forward ? layout::FactorKind::kCooperate : layout::FactorKind::kReplicate;
  }
  return is_forward && how.reduction != "none" ? layout::FactorKind::kReduce : layout::FactorKind::kPass;
}

tensor::Attributes localized_classes(const tensor::LocalizeCall& call, std::int64_t classes,
                                     const layout::IndexMap& map) {
  CrossEntropyAttributes local = call.global.as<CrossEntropyAttributes>();
  if (map.size() == classes) return tensor::Attributes(local);
  local.classes = classes;
  local.class_map = map;
  return tensor::Attributes(local);
}

void divide_mean(Tensor& grad, const Tensor& targets, CrossEntropyAttributes& how) {
  if (how.reduction != "mean" || how.count > 0) return;
  grad = div(grad, count_targets(targets, how.ignore_index, grad.dtype()));
  how.reduction = "sum";
}

}  // namespace tessera::ops::detail
