// Signals between ranks that see each other's memory (symmetric_backend.h), run on the host in the order of a stream. A
// rank waits on its own pad, as it waits everywhere (waiting.h); who puts wakes it.
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

/// See the head of this file. Thread-safe.
class PeerSignals : public SignalBackend, public std::enable_shared_from_this<PeerSignals> {
 public:
  /// Of `rank`; `communicator` keeps `memory` and `extended_ns`, the time by which deadlines were moved so far.
  PeerSignals(std::shared_ptr<const Communicator> communicator, const PeerMemory& memory,
              const std::atomic<std::int64_t>& extended_ns, int rank, SignalPads pads);
  void enqueue(const Signal& signal, const device::Stream& stream) override;

 private:
  // One signal that runs.
  struct Run {
    const Signal& signal;
    std::chrono::nanoseconds until;
    std::int64_t extended_ns;  // when it was enqueued; of a replay: when it began
  };
  void run(const Signal& signal, std::int64_t extended_ns) const;
  void put(const Run& run, int peer) const;
  std::uint64_t wait(const Run& run, int peer) const;
  void barrier(const Run& run) const;
  [[nodiscard]] std::chrono::nanoseconds extra(const Run& run) const;
  [[nodiscard]] std::chrono::nanoseconds time_left(const Run& run) const;
  [[noreturn]] void fail(const Run& run, Failure failure, int peer) const;
  [[noreturn]] void fail_waiting(const Run& run, int peer, std::uint64_t number) const;

  const std::shared_ptr<const Communicator> communicator_;
  const PeerMemory& memory_;
  const std::atomic<std::int64_t>& extended_ns_;
  const int rank_;
  const SignalPads pads_;
};

}  // namespace tessera::comm::detail
