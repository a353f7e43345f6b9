// A communicator of ranks that can access each other's memory. Runs its tasks on the host, in stream order.
#pragma once

#include <memory>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/peer_memory/peer_memory.h"
#include "tessera/comm/detail/peer_memory/step.h"
#include "tessera/comm/detail/task_runner.h"
#include "tessera/comm/store/wait_notice.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm::detail {

/// Returns the capabilities of backends over peer memory.
const Capabilities& peer_capabilities();

/// The communicator of one rank. Thread-safe.
class PeerCommunicator : public Communicator,
                         public SymmetricBackend,
                         public std::enable_shared_from_this<PeerCommunicator> {
 public:
  /// Waits until all ranks have joined, and logs the missing ranks after `delays`. Throws TimeoutError, which names a
  /// missing rank.
  PeerCommunicator(std::unique_ptr<PeerMemory> memory, const ConnectRequest& request, NoticeDelays delays = {});
  /// Leaves the group and informs peers that wait for this rank.
  ~PeerCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return peer_capabilities(); }
  bool run_now(Task& task, const device::Stream& stream) override;
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override;
  void leave() noexcept override;
  [[nodiscard]] std::exception_ptr failure(std::string_view group) override;
  [[nodiscard]] std::vector<int> gone() const override;
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::uint64_t sequence() const override { return tasks_.sequence(); }

  [[nodiscard]] SymmetricBackend* symmetric() override { return this; }
  std::optional<PeerPlace> place_of(const void* address, std::size_t nbytes) override;
  std::byte* reach(int peer, const PeerPlace& place) override;
  std::shared_ptr<SignalBackend> connect_signals(SignalPads pads) override;
  void note_passed(std::uint64_t registration) override;

 private:
  void log_wait(const std::string& name, std::chrono::seconds waited) const;

  const OwnerProcess owner_;
  const std::unique_ptr<PeerMemory> memory_;
  const int rank_;
  TaskRunner tasks_;
  PeerSteps steps_;
  std::atomic<std::int64_t> extended_ns_{0};  // sum of all extensions
  std::mutex pads_mutex_;
  std::vector<std::shared_ptr<const void>> pads_;  // pads of this rank, which peers write
};

}  // namespace tessera::comm::detail
