#include "tessera/ops/index/detail/lines.h"

namespace tessera::ops::detail {

std::size_t line_dim(const tensor::Call& call, const Tensor& x, const Tensor& index, std::int64_t dim) {
  check_index(call, index);
  TESSERA_CHECK_CALL(call, x.ndim() > 0 && x.ndim() == index.ndim(), "index must have as many dimensions as x (",
                     x.ndim(), "), and at least one, got ", index.ndim());
  const auto at = static_cast<std::size_t>(tensor::normalized_dim(call, dim, x.ndim()));
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    TESSERA_CHECK_CALL(call, d == at || index.shape()[d] <= x.shape()[d], "index must not exceed x in dimension ", d,
                       " (size ", x.shape()[d], "), got ", index.shape()[d]);
  }
  return at;
}

void LineRule::add(layout::FactorRule& rule, std::initializer_list<layout::OperandFactors*> like_x,
                   std::initializer_list<layout::OperandFactors*> like_index) const {
  using layout::FactorKind;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const bool is_shared = d != dim && (x.size() == 0 || x[d] == index[d]);
    const FactorKind x_is = d == dim ? x_kind : FactorKind::kReplicate;
    const FactorKind index_is = d == dim ? index_kind : FactorKind::kReplicate;
    const std::int32_t of_x =
        is_shared ? add_factor(rule, FactorKind::kPass) : add_factor(rule, x_is, d == dim ? x_size : x[d]);
    const std::int32_t of_index = is_shared ? of_x : add_factor(rule, index_is);
    for (auto* operand : like_x) operand->push_back({of_x});
    for (auto* operand : like_index) operand->push_back({of_index});
  }
}

}  // namespace tessera::ops::detail
