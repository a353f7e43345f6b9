// The signals of a symmetric pool (symmetric_backend.h) on a GPU: each is a small kernel. A failure ends the group, and
// the next call of the pool or the next operation of the group reports it, since streams of a GPU have no error state
// for it.
#pragma once

#include <memory>

#include "tessera/comm/backends/cuda/shared_group.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::cuda {

/// The signals of one pool on one rank. Thread-safe.
class CudaSignals : public SignalBackend {
 public:
  /// Creates the signals of `rank`.
  CudaSignals(std::shared_ptr<SharedGroup> shared, int rank, SignalPads pads);
  void enqueue(const Signal& signal, const device::Stream& stream) override;

 private:
  const std::shared_ptr<SharedGroup> shared_;
  const int rank_;
  const SignalPads pads_;
  const std::uint32_t pool_;
};

}  // namespace tessera::comm::cuda
