// One rank's side of a group on one GPU: plans operations and launches their kernels. How an operation went is read
// from its cell: by whoever asks for it, and by a thread that watches what is under way, for the record.
//
//   cells    a ring of pinned memory; operation n has cell n % kCells. A rank that is that many operations ahead of its
//            own kernels waits, so that no queue of the driver fills up: a launch that waits there holds up others.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/comm/backends/cuda/shared_group.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/detail/watch.h"
#include "tessera/comm/symmetric_backend.h"
#include "tessera/device/device.h"

namespace tessera::comm::cuda {

/// See the head of this file. Thread-safe.
class CudaCommunicator : public Communicator,
                         public SymmetricBackend,
                         public detail::Watched,
                         public std::enable_shared_from_this<CudaCommunicator> {
 public:
  /// Returns when all ranks are there.
  CudaCommunicator(std::shared_ptr<SharedGroup> shared, const ConnectRequest& request);
  /// Leaves when what it launched has ended; does not wait for that.
  ~CudaCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override;
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override { shared_->abort(rank_, reason); }
  void leave() noexcept override;
  [[nodiscard]] std::vector<int> gone() const override;
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::exception_ptr failure(std::string_view group) override { return shared_->error(group); }
  [[nodiscard]] std::uint64_t sequence() const override;

  /// Records what has begun and ended.
  bool look() override;

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
  // Whose end is not recorded yet. The task and its group may be gone by then.
  struct Pending {
    const Cell* cell = nullptr;
    detail::Launched launched;
    detail::GroupRecord* record = nullptr;   // there while its group is
    std::weak_ptr<const std::string> group;  // its name
    bool has_begun = false;
  };
  // Of a kernel: its place in its task.
  struct Part {
    bool is_ahead = false;
    bool is_first = false;
    bool is_last = false;
  };

  void launch(const Task& task, Cell* cell, const device::Stream& stream);
  void launch_part(const Task& task, const Operation& operation, Part part, Cell* cell, const device::Stream& stream);
  void note_launched(const Task& task, const Cell& cell);
  void record_progress();
  void order_behind_last(const device::Stream& stream);
  void check_buffers(const Operation& operation, const device::Stream& stream) const;
  Cell* take_cell(const std::shared_ptr<Task>& task);
  void look(Task& task, const Cell& cell, bool has_ended);

  const std::shared_ptr<SharedGroup> shared_;
  const int rank_;
  const int size_;
  const std::uint32_t most_blocks_;
  const std::shared_ptr<device::PinnedMemory> cells_;  // kept by what is on the way, too
  std::mutex launch_mutex_;                            // for the order of launches and what follows
  std::vector<Slot> slots_;
  std::uint64_t launched_ = 0;
  device::Stream last_stream_;
  std::uint64_t last_group_ = 0;  // digest
  std::mutex look_mutex_;         // for what a task is told of its end, and what follows
  std::deque<Pending> pending_;   // in the order of their launches, which is that of their ends
  bool is_watched_ = false;
};

}  // namespace tessera::comm::cuda
