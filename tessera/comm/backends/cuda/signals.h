// The signals of a symmetric pool (symmetric_backend.h) on a GPU: each is a small kernel. What goes wrong ends the
// group and is told by the next call of the pool, or the next operation of the group: a stream of a GPU has no error of
// its own for it.
#pragma once

#include <memory>

#include "tessera/comm/backends/cuda/shared_group.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::cuda {

/// See the head of this file. Thread-safe.
class CudaSignals : public SignalBackend {
 public:
  /// Of `rank`.
  CudaSignals(std::shared_ptr<SharedGroup> shared, int rank, SignalPads pads);
  void enqueue(const Signal& signal, const device::Stream& stream) override;

 private:
  const std::shared_ptr<SharedGroup> shared_;
  const int rank_;
  const SignalPads pads_;
  const std::uint32_t pool_;
};

}  // namespace tessera::comm::cuda
