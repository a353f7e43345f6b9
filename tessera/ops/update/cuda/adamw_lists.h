// Arguments of the kernels in adamw_lists.cu. The tensors of a step are in the arguments of the launch, which hold up
// to 32764 bytes. Nothing is copied, and nothing must outlive a captured launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

/// The operands of a step of one tensor, in this order.
enum AdamWPart { kParam, kGrad, kFirst, kSecond, kNewParam, kNewFirst, kNewSecond, kAdamWParts };

/// A number of one element in device memory; null if absent.
struct AdamWScalar {
  const void* data = nullptr;
  DType dtype = DType::kF32;
};

/// The values that all tensors share.
struct AdamWStepInfo {
  double beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  AdamWScalar learning_rate, clip, skip;
  std::int64_t* step = nullptr;      // number of steps so far
  std::int64_t* new_step = nullptr;  // null: another launch writes it
};

/// A dense tensor.
struct AdamWTensor {
  std::byte* parts[kAdamWParts] = {};
  std::int64_t numel = 0;
  DType dtypes[kAdamWParts] = {};
  bool is_float : 1 = false;     // all parts are f32
  bool has_vectors : 1 = false;  // four elements of each part can be loaded as a vector
};

/// Elements of a chunk, the unit of work of a block.
inline constexpr std::int64_t kAdamWPiece = 4096;
/// Maximum number of tensors per launch.
inline constexpr int kMaxAdamWTensors = 400;

/// Many dense tensors.
struct AdamWLists {
  AdamWStepInfo info;
  std::int32_t count = 0;
  std::int32_t pieces = 0;                          // of all tensors
  std::int32_t first_piece[kMaxAdamWTensors] = {};  // of each tensor
  AdamWTensor tensors[kMaxAdamWTensors] = {};
};
static_assert(sizeof(AdamWLists) <= 32764, "the arguments of a launch");

/// Maximum number of dimensions of a tensor that is not dense.
inline constexpr int kMaxAdamWDims = 12;

/// One tensor with a part that is not dense.
struct AdamWStrided {
  AdamWStepInfo info;
  AdamWTensor tensor;
  std::int32_t ndim = 0;
  std::int64_t sizes[kMaxAdamWDims] = {};
  std::int64_t strides[kAdamWParts][kMaxAdamWDims] = {};
};

}  // namespace tessera::ops::cuda
