// One rank's side of a group on one GPU: plans operations and launches their kernels. How an operation went is read
// from its cell, when somebody asks for it or when the cell is used again.
//
//   cells    a ring of pinned memory; operation n has cell n % kCells. A rank that is that many operations ahead of its
//            own kernels waits, so that no queue of the driver fills up: a launch that waits there holds up others.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/comm/backends/cuda/shared_group.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/symmetric_backend.h"
#include "tessera/device/device.h"

namespace tessera::comm::cuda {

/// See the head of this file. Thread-safe.
class CudaCommunicator : public Communicator,
                         public SymmetricBackend,
                         public std::enable_shared_from_this<CudaCommunicator> {
 public:
  /// Returns when all ranks are there.
  CudaCommunicator(std::shared_ptr<SharedGroup> shared, const ConnectRequest& request);
  /// Leaves when what it launched has ended; does not wait for that.
  ~CudaCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override;
  void enqueue(std::shared_ptr<Task> task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override { shared_->abort(rank_, reason); }
  void leave() noexcept override;
  [[nodiscard]] std::vector<int> gone() const override;
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::uint64_t sequence() const override;

  [[nodiscard]] SymmetricBackend* symmetric() override { return this; }
  std::optional<PeerPlace> place_of(const void* address, std::size_t nbytes) override;
  std::byte* reach(int peer, const PeerPlace& place) override;
  std::shared_ptr<SignalBackend> connect_signals(SignalPads pads) override;
  void note_passed(std::uint64_t registration) override;

 private:
  static constexpr std::size_t kCells = 512;
  struct Slot {
    Cell* cell = nullptr;
    std::weak_ptr<Task> task;
  };

  void launch(Task& task, Cell* cell, const device::Stream& stream);
  void order_behind_last(const device::Stream& stream);
  void check_buffers(const Operation& operation, const device::Stream& stream) const;
  Cell* take_cell(const std::shared_ptr<Task>& task);
  void look(Task& task, const Cell& cell, bool has_ended);

  const std::shared_ptr<SharedGroup> shared_;
  const int rank_;
  const int size_;
  const std::uint32_t most_blocks_;
  device::PinnedMemory cells_;
  std::mutex launch_mutex_;  // for the order of launches and what follows
  std::vector<Slot> slots_;
  std::uint64_t launched_ = 0;
  device::Stream last_stream_;
  std::mutex look_mutex_;  // for what a task is told of its end
};

}  // namespace tessera::comm::cuda
