#include "tessera/comm/backends/cuda/signals.h"

#include <algorithm>
#include <atomic>

#include "tessera/base/error.h"

namespace tessera::comm::cuda {

CudaSignals::CudaSignals(std::shared_ptr<SharedGroup> shared, int rank, SignalPads pads)
    : shared_(std::move(shared)),
      rank_(rank),
      pads_(std::move(pads)),
      pool_(shared_->add_pool(pads_.pool, pads_.memory)) {}

void CudaSignals::enqueue(const Signal& signal, const device::Stream& stream) {
  const bool is_captured = stream.is_capturing();
  if (is_captured) {
    shared_->keep();
  } else if (const std::exception_ptr error = shared_->error(*pads_.group)) {
    std::rethrow_exception(error);
  }
  shared_->note_stream(rank_, stream);
  SignalLaunch launch{};
  launch.group = shared_->memory();
  launch.control = shared_->control();
  launch.deadline_ns =
      signal.deadline == device::kForever ? ~std::uint64_t{0} : static_cast<std::uint64_t>(signal.deadline.count());
  launch.extended_base = is_captured
                             ? ~std::uint64_t{0}
                             : std::atomic_ref<std::uint64_t>(shared_->control()->ranks[rank_].extended_all).load();
  launch.log = signal.log;
  launch.rank = rank_;
  launch.size = shared_->size();
  launch.kind = static_cast<std::int32_t>(signal.kind);
  launch.peer = signal.peer;
  launch.channel = signal.channel;
  launch.pool = pool_;
  std::ranges::copy(pads_.pads, launch.pads);
  stream.launch(shared_->kernels().named("signal"), {.block = {32, 1, 1}, .spins = signal.kind != Signal::Kind::kPut},
                device::KernelArgs(launch), {.label = "signal"});
}

}  // namespace tessera::comm::cuda
