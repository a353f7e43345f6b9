// Arguments of the kernels over lists of tensors, in update_lists.cu and norm_lists.cu. The tensors are in the
// arguments of the launch, which hold up to 32764 bytes. Nothing is copied, and nothing must outlive a captured launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// Maximum number of inputs and results of an update of one tensor: those of AdamW.
inline constexpr int kMaxListParts = 7;
/// Elements of a unit, in which the work of an update is divided among blocks.
inline constexpr std::int64_t kListUnit = 1024;
/// Elements of a chunk, which a block adds to one number.
inline constexpr std::int64_t kNormChunk = 32768;
/// Maximum number of tensors per launch.
inline constexpr int kMaxListTensors = 400;
/// Maximum number of dimensions of a tensor that is not dense.
inline constexpr int kMaxListDims = 12;

/// A number of one element in device memory; null if absent.
struct ListScalar {
  const void* data = nullptr;
  DType dtype = DType::kF32;
};

/// The values of a step that do not depend on the element, in the order of the constructor of its operation.
struct StepValues {
  double values[8];
  bool is_skipped;
};

/// The numbers that all tensors share.
struct StepInfo {
  double attributes[4] = {};  // in the order of the fields of the attributes of the operator
  ListScalar learning_rate, clip, skip;
  const StepValues* prepared = nullptr;  // computed by a launch before this one, or null
};

/// The operands of one tensor: inputs, then results.
struct ListTensor {
  std::byte* parts[kMaxListParts];
  std::int64_t numel;
  DType dtypes[kMaxListParts];
  bool has_vectors;  // four elements of each part can be loaded as a vector
};

/// Many dense tensors.
struct TensorLists {
  StepInfo info;
  std::int32_t count;
  std::int32_t units;                        // of all tensors
  std::int32_t first_unit[kMaxListTensors];  // of each tensor
  ListTensor tensors[kMaxListTensors];
};
static_assert(sizeof(TensorLists) + 64 <= 32764, "the arguments of a launch");

/// One tensor with a part that is not dense.
struct StridedTensor {
  StepInfo info;
  ListTensor tensor;
  std::int32_t ndim;
  std::int64_t sizes[kMaxListDims];
  std::int64_t strides[kMaxListParts][kMaxListDims];
};

/// The step of AdamW: `step` counts the steps so far, `new_step` receives the new count.
struct AdamWStep {
  StepInfo info;
  const std::int64_t* step;
  std::int64_t* new_step;
  StepValues* values;
};

/// How a list is reduced to norms. `partial` receives one number per chunk.
struct NormCall {
  double p;
  double* partial;
  std::int64_t first;  // index of the first chunk of this launch
};

}  // namespace tessera::ops::cuda
