#include "tessera/ops/create/detail/fill.h"

namespace tessera::ops::detail {

Places::Places(const Shape& shape, const Shape& global, const std::vector<layout::IndexMap>& index) {
  const bool is_whole = index.empty();
  // A global tensor is one long run, whatever its shape.
  shape_ = is_whole ? Shape({shape.numel()}) : shape;
  global_ = is_whole ? shape_ : global;
  index_ = index;
}

std::int64_t Places::run_of(std::int64_t place) const {
  if (index_.empty()) return shape_[0] - place;
  if (shape_.size() == 0) return 1;
  const std::size_t last = shape_.size() - 1;
  const std::int64_t in_row = place % shape_[last];
  const std::int64_t left = shape_[last] - in_row;
  const layout::IndexMap& map = index_[last];
  return map.is_contiguous() ? left : std::min(left, map.block - in_row % map.block);
}

std::int64_t Places::global_of(std::int64_t place) const {
  if (index_.empty()) return place;
  std::int64_t global = 0;
  std::int64_t step = 1;
  for (std::size_t d = shape_.size(); d-- > 0; place /= shape_[d], step *= global_[d]) {
    global += index_[d].global(place % shape_[d]) * step;
  }
  return global;
}

layout::FactorRule rule_from_nothing(const tensor::Call& call, const Shape& shape) {
  layout::FactorRule rule;
  rule.name = call.op.name();
  rule.inputs.resize(call.inputs.size());
  layout::OperandFactors& out = rule.outputs.emplace_back();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // A rule cannot express a size of 0; an empty dimension need not be sharded.
    rule.factors.push_back({.name = tessera::detail::concat("d", d),
                            .kind = shape[d] == 0 ? layout::FactorKind::kReplicate : layout::FactorKind::kPass,
                            .size = shape[d]});
    out.push_back({static_cast<std::int32_t>(d)});
  }
  return rule;
}

Item item_of(const Scalar& value, DType dtype) {
  Item item;
  const auto put = [&](const auto& number) { store(&number, item.bytes, dtype, 1, 1); };
  if (value.kind() == Scalar::Kind::kComplex) {
    put(value.as_complex());
  } else if (value.kind() == Scalar::Kind::kFloating) {
    put(value.as_double());
  } else {
    put(value.as_int64());
  }
  return item;
}

}  // namespace tessera::ops::detail
