// The communicator of one rank in a group on one GPU. It plans operations and launches their kernels. The result of an
// operation is read from its cell, by callers that request it and by a polling thread, for the record.
//
//   cells    a ring in pinned memory; operation n has cell n % kCells. A rank that is that many operations ahead of its
//            kernels waits, so that no queue of the driver fills up: a launch that waits there blocks others.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/comm/backends/cuda/shared_group.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/polled_object.h"
#include "tessera/comm/symmetric_backend.h"
#include "tessera/device/device.h"

namespace tessera::comm::cuda {

/// Returns the capabilities of the backend.
const Capabilities& cuda_capabilities();

/// The communicator of one rank. Thread-safe.
class CudaCommunicator : public Communicator,
                         public SymmetricBackend,
                         public detail::PolledObject,
                         public std::enable_shared_from_this<CudaCommunicator> {
 public:
  /// Waits until all ranks have joined.
  CudaCommunicator(std::shared_ptr<SharedGroup> shared, const ConnectRequest& request);
  /// Leaves after its launches have ended; does not wait for them.
  ~CudaCommunicator() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return cuda_capabilities(); }
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override { shared_->abort(rank_, reason); }
  void leave() noexcept override;
  [[nodiscard]] std::vector<int> gone() const override;
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::exception_ptr failure(std::string_view group) override { return shared_->error(group); }
  [[nodiscard]] std::uint64_t sequence() const override;

  /// Records the starts and ends of operations.
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
  // An operation whose end is not recorded yet. Its task and group may be destroyed before.
  struct PendingLaunch {
    const Cell* cell = nullptr;
    detail::Launched launched;
    detail::GroupRecord* record = nullptr;   // valid while its group exists
    std::weak_ptr<const std::string> group;  // name of the group
    bool has_begun = false;
  };
  // The position of a kernel in its task.
  struct KernelPosition {
    bool is_ahead = false;
    bool is_first = false;
    bool is_last = false;
  };

  void launch(const Task& task, Cell* cell, const device::Stream& stream);
  void launch_part(const Task& task, const Operation& operation, KernelPosition part, Cell* cell,
                   const device::Stream& stream);
  void note_launched(const Task& task, const Cell& cell);
  void record_progress();
  void order_behind_last(const device::Stream& stream);
  void check_buffers(const Operation& operation, const device::Stream& stream) const;
  Cell* take_cell(const std::shared_ptr<Task>& task);
  void look(Task& task, const Cell& cell, bool has_ended);

  const std::shared_ptr<SharedGroup> shared_;
  const int rank_;
  const int size_;
  const std::uint32_t max_blocks_;
  const std::shared_ptr<device::PinnedMemory> cells_;  // pending operations keep it alive too
  std::mutex launch_mutex_;                            // orders launches and protects the members below
  std::vector<Slot> slots_;
  std::uint64_t launched_ = 0;
  device::Stream last_stream_;
  std::uint64_t last_group_ = 0;       // digest of the name
  std::mutex look_mutex_;              // protects the results of tasks and the members below
  std::deque<PendingLaunch> pending_;  // in launch order, which is the order of their ends
  bool is_watched_ = false;
};

}  // namespace tessera::comm::cuda
