// Launches of the kernels in cross_entropy_rows.cu, for cross_entropy and linear_cross_entropy.
#pragma once

#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/cuda/cross_entropy_call.h"
#include "tessera/ops/nn/cuda/rows_of.h"

namespace tessera::ops::cuda {

/// Converts the attributes of a call over `classes` logits per row. Throws NotSupported for a map of too many levels.
LossParameters loss_parameters(const tensor::KernelCall& call, std::int64_t classes);
/// Launches the losses of `of.logits`.
void launch_losses(const tensor::KernelCall& call, const LossForward& of);
/// Launches the gradients of `of.logits`. dx may be in the memory of the logits if it has their dtype.
void launch_loss_gradients(const tensor::KernelCall& call, const LossBackward& of);
/// Launches the sum of the losses of all rows, divided as the call requests.
void launch_total(const tensor::KernelCall& call, const double* losses, const DeviceRows& targets,
                  const LossParameters& how, const DeviceRows& to);
/// Returns the number of targets that count, in f64 on the device; empty if the divisor is known.
memory::Buffer launch_divisor(const tensor::KernelCall& call, const DeviceRows& targets, const LossParameters& how);
/// Rows [from, from + count) that are copied to rows [to, to + count).
struct CopiedRows {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};
/// Launches a copy of rows of floating dtypes; if `from` is absent, writes zeros.
void launch_copy(const tensor::KernelCall& call, const DeviceRows& from, const DeviceRows& to, const CopiedRows& rows);

}  // namespace tessera::ops::cuda
