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
  TESSERA_CHECK_CALL(call, !is_storage_only(x.dtype()), "dtype must be one that operators compute in, got ", x.dtype(),
                     which(call, x), "; cast it first");
}

void check_floating(const tensor::Call& call, const Tensor& x) {
  const DType dtype = x.dtype();
  TESSERA_CHECK_CALL(call, is_computed_floating(dtype), "dtype must be f32, f64, bf16 or f16, got ", dtype,
                     which(call, x), "; cast it first");
}

}  // namespace tessera::ops::detail
