// Arguments of the kernels in cross_entropy_rows.cu, for the host and the device.
#pragma once

#include "tessera/ops/nn/cuda/device_rows.h"

namespace tessera::ops::cuda {

/// Maximum number of levels of a map of classes.
inline constexpr int kMaxClassLevels = 8;

/// The parameters of the loss.
struct LossParameters {
  std::int64_t first = 0;  // index of the first row of logits among all rows
  std::int64_t ignore_index = -100;
  std::int64_t targets_end = 0;  // number of classes of all ranks
  double smoothing = 0;
  double share = 0;      // target probability of each class due to smoothing
  double count = 0;      // divisor of the sum of losses (1 if it is not a mean); 0: the number of targets that count
  bool is_part = false;  // the logits hold a shard of the classes; the map follows, as in layout::IndexMap
  std::int32_t nlevels = 0;
  std::int64_t offset = 0, block = 0;
  std::int64_t counts[kMaxClassLevels] = {};
  std::int64_t strides[kMaxClassLevels] = {};
};

/// The loss of rows of logits. Rows of other operands have one element, and are those of all logits.
struct LossForward {
  LossParameters how;
  DeviceRows logits, targets, loss, logsumexp;  // loss: absent if the losses are reduced
  double* losses = nullptr;                     // of each row, if they are reduced
};

/// The gradients of rows of logits.
struct LossBackward {
  LossParameters how;
  DeviceRows logits, targets, logsumexp;
  DeviceRows grad;            // of the loss; absent: 1
  DeviceRows grad_logsumexp;  // may be absent
  DeviceRows dx;
  const double* divisor = nullptr;  // if the divisor is not known
  bool is_reduced = true;           // one gradient for all rows
};

}  // namespace tessera::ops::cuda
