// A communicator of ranks that see each other's memory: runs its tasks on the host, in the order of the stream.
#pragma once

#include <memory>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/peer_memory/peer_memory.h"
#include "tessera/comm/detail/peer_memory/step.h"
#include "tessera/comm/detail/task_runner.h"

namespace tessera::comm::detail {

/// See the head of this file. Thread-safe.
class PeerCommunicator : public Communicator, public std::enable_shared_from_this<PeerCommunicator> {
 public:
  /// Waits until all ranks are there; TimeoutError names one that is not.
  PeerCommunicator(std::unique_ptr<PeerMemory> memory, const ConnectRequest& request);
  /// Leaves: peers that wait for this rank are told.
  ~PeerCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override;
  void enqueue(std::shared_ptr<Task> task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override;
  void leave() noexcept override;
  [[nodiscard]] std::vector<int> gone() const override;
  void extend_deadline(std::chrono::nanoseconds by) override { steps_.extend(by); }
  [[nodiscard]] std::uint64_t sequence() const override { return tasks_.sequence(); }

 private:
  const std::unique_ptr<PeerMemory> memory_;
  const int rank_;
  Steps steps_;
  TaskRunner tasks_;
};

}  // namespace tessera::comm::detail
