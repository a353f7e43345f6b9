// Values that a step computes before its update. The device decides by them whether the step is taken, so that the host
// enqueues the update without waiting for them. The host reads them when the step has finished.
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

/// The values of a step on the host. In a capture, each replay reads them again.
class StepReadings {
 public:
  /// Enqueues the copies on the current stream. They are done when the stream has reached them.
  void read(const StepValues& values, const Tensor& skip) const;
  /// Returns the loss of the last step that was read; 0 on a device without values, as for the norm.
  [[nodiscard]] double loss() const { return loss_.as<double>(); }
  /// Returns the gradient norm before clipping.
  [[nodiscard]] double grad_norm() const { return norm_.as<double>(); }
  /// Returns true if the step changed nothing.
  [[nodiscard]] bool is_skipped() const { return skip_.as<bool>(); }

 private:
  HostValue loss_;
  HostValue norm_;
  HostValue skip_;
};

}  // namespace tessera::train::detail
