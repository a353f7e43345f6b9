// Values that a step computes before its update. The device decides by them whether the step is taken, so that the host
// enqueues the update without waiting for them. The host reads them when the step has finished, and may have enqueued
// the next step by then. A skipped step lowers the bound of the norm, so that the device skips the next step too: the
// parameters are those before the skipped step when the host learns of it.
#pragma once

#include "tessera/ops/update/update.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/detail/host_copies.h"

namespace tessera::train::detail {

/// Values of a step before the update: tensors of one element, complete on this rank.
struct StepValues {
  Tensor loss;         ///< Mean over the tokens of all ranks.
  ops::GradNorm norm;  ///< Norm of all gradients, and their clip factor.
};

/// Returns whether the update must change nothing: the loss or the norm is not finite, or the norm is above `most`, one
/// f64. The trainer decides the same from the same values.
Tensor skip_flag(const StepValues& values, const Tensor& most);

/// Returns the bound of the step after one with this bound: the same, or after a skipped step one that no norm is
/// below.
Tensor next_bound(const Tensor& skip, const Tensor& most);
/// Returns the values that the host reads: f64 [3].
Tensor outcome_of(const StepValues& values, const Tensor& skip);

/// The values of a step on the host.
class StepReadings {
 public:
  /// Enqueues the copy of outcome_of() on the current stream. It is done when the stream has reached it.
  void read(const Tensor& outcome) const { values_.read(outcome); }
  /// Returns the loss of the last step that was read; 0 on a device without values, as for the norm.
  [[nodiscard]] double loss() const { return values_.as<double>(0); }
  /// Returns the gradient norm before clipping.
  [[nodiscard]] double grad_norm() const { return values_.as<double>(1); }
  /// Returns true if the step changed nothing.
  [[nodiscard]] bool is_skipped() const { return values_.as<double>(2) != 0; }

 private:
  HostValues values_{3};
};

}  // namespace tessera::train::detail
