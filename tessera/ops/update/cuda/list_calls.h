// Lists of tensors as arguments of kernels, for update_lists.cpp and norm_lists.cpp.
#pragma once

#include <memory>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/update/cuda/update_lists.h"
#include "tessera/ops/update/detail/lists.h"

namespace tessera::ops::cuda {

/// Describes the operands at index i: inputs of the first `inputs` lists, then results of `outputs` lists. Sets
/// `is_dense` to whether all are contiguous.
ListTensor list_tensor(const detail::ListCall& of, std::size_t i, std::size_t inputs, std::size_t outputs,
                       bool& is_dense);
/// Adds the strides of the operands at index i. Throws NotSupported above kMaxListDims dimensions.
StridedTensor strided_tensor(const detail::ListCall& of, std::size_t i, std::size_t inputs, std::size_t outputs,
                             const StepInfo& info, const ListTensor& tensor);

/// Returns tables without tensors.
std::unique_ptr<TensorLists> empty_lists(const StepInfo& info);
/// Returns true if the table has no place for `units` more units.
bool is_full(const TensorLists& lists, std::int64_t units);
/// Appends a tensor, which is_full() found a place for.
void append(TensorLists& lists, const ListTensor& tensor, std::int64_t units);

}  // namespace tessera::ops::cuda
