#include "tessera/ops/update/detail/lists.h"

#include "tessera/ops/detail/dtype_checks.h"

namespace tessera::ops::detail {

void ListCall::check() const {
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& first = at(0, i);
    for (std::size_t list = 0; list < lists; ++list) {
      const Tensor& x = at(list, i);
      const std::string& name = call.op->inputs[list].name;
      TESSERA_CHECK_CALL(call, x, name, "[", i, "] must be a tensor, got an empty handle");
      TESSERA_CHECK_CALL(call, is_computed_floating(x.dtype()), name, "[", i, "] must be f32, f64, bf16 or f16, got ",
                         x.dtype());
      TESSERA_CHECK_CALL(call, x.shape() == first.shape(), name, "[", i, "] must have shape ", first.shape(), ", got ",
                         x.shape());
    }
  }
}

void ListCall::check_single(std::size_t i, bool is_optional, Single kind) const {
  const Tensor& x = single(i);
  const std::string& name = call.op->inputs[lists + i].name;
  TESSERA_CHECK_CALL(call, x || is_optional, name, " must be a tensor, got an empty handle");
  if (!x) return;
  TESSERA_CHECK_CALL(call, x.numel() == 1, name, " must have one element, got ", x.shape());
  const DType dtype = x.dtype();
  if (kind == Single::kCount) {
    TESSERA_CHECK_CALL(call, dtype == DType::kI64, name, " must be i64, got ", dtype);
    return;
  }
  const bool is_flag = dtype == DType::kBool || dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8;
  TESSERA_CHECK_CALL(call, is_computed_floating(dtype) || (is_flag && kind == Single::kFlag), name, " must be ",
                     kind == Single::kFlag ? "bool" : "f32, f64, bf16 or f16", ", got ", dtype);
}

layout::FactorRule ListCall::rule(layout::FactorKind kind, std::size_t output_lists) const {
  // A factor of one tensor is missing from the results of the others, which a rule would treat as a reduction.
  if (count > 1) kind = layout::FactorKind::kReplicate;
  layout::FactorRule rule;
  rule.name = call.op.name();
  std::vector<layout::OperandFactors> places;
  for (std::size_t i = 0; i < count; ++i) {
    layout::OperandFactors factors;
    for (int d = 0; d < at(0, i).ndim(); ++d) {
      layout::Factor factor;
      factor.name = "t" + std::to_string(i) + "d" + std::to_string(d);
      factor.kind = kind;
      layout::DimFactors one;
      one.push_back(static_cast<std::int32_t>(rule.factors.size()));
      rule.factors.push_back(std::move(factor));
      factors.push_back(one);
    }
    places.push_back(std::move(factors));
  }
  TESSERA_CHECK_AS(NotSupported, rule.factors.size() <= 64, rule.name,
                   ": sharding rule must have at most 64 factors, got ", rule.factors.size(), " for ", count,
                   " tensors; call it on their local shards");
  for (std::size_t list = 0; list < lists; ++list) rule.inputs.insert(rule.inputs.end(), places.begin(), places.end());
  rule.inputs.resize(call.inputs.size());
  for (std::size_t list = 0; list < output_lists; ++list) {
    rule.outputs.insert(rule.outputs.end(), places.begin(), places.end());
  }
  return rule;
}

tensor::BorrowedTensors joined(std::initializer_list<std::span<const Tensor>> lists) {
  std::size_t count = 0;
  for (const auto& list : lists) count += list.size();
  tensor::BorrowedTensors all(count);
  std::size_t place = 0;
  for (const auto& list : lists) {
    for (const Tensor& tensor : list) all.set(place++, tensor.state());
  }
  return all;
}

ListWork::ListWork(const ListCall& of, std::size_t output_lists)
    : inputs(of.lists * of.count), outputs(output_lists * of.count), is_double(of.count), count(of.count) {
  pieces.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    bool is_dense = true;
    for (std::size_t list = 0; list < of.lists; ++list) is_dense &= of.at(list, i).is_contiguous();
    for (std::size_t list = 0; list < output_lists; ++list) is_dense &= of.out(list, i).is_contiguous();
    const Tensor& x = of.at(0, i);
    is_double[i] = x.dtype() == DType::kF64;
    // All operands at one index must have the same rows.
    const auto rows_of = [&](const Tensor& tensor) {
      return is_dense ? ListRows(tensor) : ListRows(&sparse.emplace_back(tensor, tensor.ndim() - 1));
    };
    for (std::size_t list = 0; list < of.lists; ++list) inputs[list * count + i] = rows_of(of.at(list, i));
    for (std::size_t list = 0; list < output_lists; ++list) outputs[list * count + i] = rows_of(of.out(list, i));
    if (is_dense) {
      add_pieces(i, 1, x.numel());
    } else {
      const Rows rows(x, x.ndim() - 1);
      add_pieces(i, rows.count(), rows.length());
    }
  }
}

void ListWork::add_pieces(std::size_t place, std::int64_t rows, std::int64_t length) {
  elements += rows * length;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t begin = 0; begin < length; begin += kListPiece) {
      pieces.push_back({static_cast<std::int32_t>(place), row, begin, std::min(kListPiece, length - begin)});
    }
  }
}

}  // namespace tessera::ops::detail
