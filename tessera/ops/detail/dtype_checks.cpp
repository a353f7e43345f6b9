#include "tessera/ops/detail/dtype_checks.h"

namespace tessera::ops::detail {
namespace {

// Returns " (weight)" if the tensor is a named argument.
std::string which(const tensor::Call& call, const Tensor& x) {
  const std::ptrdiff_t at = &x - call.inputs.data();
  const auto named = static_cast<std::ptrdiff_t>(call.op->inputs.size());
  if (call.op->input_lists != 0 || at < 0 || at >= named) return "";
  return " (" + call.op->inputs[static_cast<std::size_t>(at)].name + ")";
}

}  // namespace

void check_computable(const tensor::Call& call, const Tensor& x) {
  const DType dtype = x.dtype();
  const bool is_storage = dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2 || dtype == DType::kC128 ||
                          dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64;
  TESSERA_CHECK_CALL(call, !is_storage, "cannot compute in ", dtype, which(call, x), "; cast it first");
}

void check_floating(const tensor::Call& call, const Tensor& x) {
  const DType dtype = x.dtype();
  TESSERA_CHECK_CALL(call, is_computed_floating(dtype), "cannot compute in ", dtype, which(call, x),
                     "; cast to f32, f64, bf16 or f16");
}

}  // namespace tessera::ops::detail
