#include "tessera/ops/update/cuda/list_calls.h"

#include <algorithm>

namespace tessera::ops::cuda {
namespace {

// Returns an operand: part n of `inputs` input lists and the result lists after them.
const Tensor& operand(const detail::ListCall& of, std::size_t i, std::size_t inputs, std::size_t n) {
  return n < inputs ? of.at(n, i) : of.out(n - inputs, i);
}

}  // namespace

ListTensor list_tensor(const detail::ListCall& of, std::size_t i, std::size_t inputs, std::size_t outputs,
                       bool& is_dense) {
  ListTensor tensor{};
  tensor.numel = of.at(0, i).numel();
  tensor.has_vectors = true;
  is_dense = true;
  for (std::size_t n = 0; n < inputs + outputs; ++n) {
    const Tensor& x = operand(of, i, inputs, n);
    tensor.parts[n] = x.data();
    tensor.dtypes[n] = x.dtype();
    is_dense &= x.is_contiguous();
    tensor.has_vectors = tensor.has_vectors && is_aligned(x.data(), x.dtype(), 4);
  }
  return tensor;
}

StridedTensor strided_tensor(const detail::ListCall& of, std::size_t i, std::size_t inputs, std::size_t outputs,
                             const StepInfo& info, const ListTensor& tensor) {
  const Tensor& x = of.at(0, i);
  TESSERA_CHECK_AS(NotSupported, x.ndim() <= kMaxListDims, of.call.op.name(),
                   ": a tensor that is not contiguous must have at most ", kMaxListDims,
                   " dimensions on cuda, got tensor ", i, ", ", describe(x), "; make it contiguous");
  StridedTensor strided{info, tensor, x.ndim(), {}, {}};
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    strided.sizes[d] = x.shape()[d];
    for (std::size_t n = 0; n < inputs + outputs; ++n) {
      strided.strides[n][d] = operand(of, i, inputs, n).strides()[d];
    }
  }
  return strided;
}

std::unique_ptr<TensorLists> empty_lists(const StepInfo& info) {
  auto lists = std::make_unique_for_overwrite<TensorLists>();  // large, and written before it is read
  lists->info = info;
  lists->count = 0;
  lists->units = 0;
  return lists;
}

bool is_full(const TensorLists& lists, std::int64_t units) {
  return lists.count == kMaxListTensors || (lists.count > 0 && lists.units + units > INT32_MAX);
}

void append(TensorLists& lists, const ListTensor& tensor, std::int64_t units) {
  TESSERA_CHECK_AS(NotSupported, lists.units + units <= INT32_MAX, "a tensor of a list must have fewer elements, got ",
                   tensor.numel, "; split it");
  lists.first_unit[lists.count] = lists.units;
  lists.tensors[lists.count++] = tensor;
  lists.units += static_cast<std::int32_t>(units);
}

}  // namespace tessera::ops::cuda
