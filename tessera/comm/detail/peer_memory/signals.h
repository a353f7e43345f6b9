// Signals between ranks that can access each other's memory (symmetric_backend.h). They run on the host in stream
// order. A rank waits on its own pad (waiting.h); a put wakes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/peer_memory/peer_memory.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::detail {

/// The signals of one pool on one rank. Thread-safe.
class PeerSignals : public SignalBackend, public std::enable_shared_from_this<PeerSignals> {
 public:
  /// Creates the signals of `rank`. `communicator` owns `memory` and `extended_ns`, the sum of all extensions of
  /// deadlines.
  PeerSignals(std::shared_ptr<const Communicator> communicator, const PeerMemory& memory,
              const std::atomic<std::int64_t>& extended_ns, int rank, SignalPads pads);
  void enqueue(const Signal& signal, const device::Stream& stream) override;

 private:
  // A running signal.
  struct RunningSignal {
    const Signal& signal;
    std::chrono::nanoseconds until;
    std::int64_t extended_ns;  // extension when it was enqueued; in a replay, when it started
  };
  void run(const Signal& signal, std::int64_t extended_ns) const;
  void put(const RunningSignal& run, int peer) const;
  std::uint64_t wait(const RunningSignal& run, int peer) const;
  void barrier(const RunningSignal& run) const;
  [[nodiscard]] std::chrono::nanoseconds extra(const RunningSignal& run) const;
  [[nodiscard]] std::chrono::nanoseconds time_left(const RunningSignal& run) const;
  [[noreturn]] void fail(const RunningSignal& run, Failure failure, int peer) const;
  [[noreturn]] void fail_waiting(const RunningSignal& run, int peer, std::uint64_t number) const;

  const std::shared_ptr<const Communicator> communicator_;
  const PeerMemory& memory_;
  const std::atomic<std::int64_t>& extended_ns_;
  const int rank_;
  const SignalPads pads_;
};

}  // namespace tessera::comm::detail
