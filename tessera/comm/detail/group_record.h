// Writes the operations of a group to the record of its rank (records.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/base/small_vector.h"
#include "tessera/comm/group_observer.h"
#include "tessera/comm/records.h"
#include "tessera/device/stream.h"
#include "tessera/memory/label.h"

namespace tessera::comm {
struct GroupState;
struct Task;
}  // namespace tessera::comm

namespace tessera::comm::detail {

struct RankBook;

/// The data of a launch that its records repeat.
struct Launched {
  /// Describes a task that this group rank enqueued.
  static Launched of(const Task& task, int rank);
  std::uint64_t count = 0;                      ///< count of the operation that represents the launch
  std::uint64_t what = 0;                       ///< that operation, packed into a word
  std::uint32_t number = 0;                     ///< number of the launch in its group
  bool is_collective = true;                    ///< the launch has a collective
  SmallVector<std::uint32_t, 4> messages = {};  ///< its point-to-point operations: 2 * peer, plus 1 for recv
};

/// The record of one group. One thread at a time calls next_number() and asked(). The rank and its record may be
/// destroyed at any time. Launches that a device runs may be reported late and out of order; tables hold the latest.
class GroupRecord {
 public:
  GroupRecord() = default;
  ~GroupRecord();
  GroupRecord(const GroupRecord&) = delete;
  GroupRecord& operator=(const GroupRecord&) = delete;

  /// Starts to record a group of the current rank.
  void open(GroupState& group);
  /// Returns the number of the next enqueued task.
  std::uint32_t next_number() { return ++tasks_; }
  /// Records that the task was enqueued on this stream, at this tick of the recorder's clock (0: now).
  void asked(const Task& task, const device::Stream& stream, std::uint64_t ticks = 0);
  /// Records that the task started, at this tick of the recorder's clock.
  void began(const Task& task, std::uint64_t ticks);
  /// Records that all participating ranks have arrived.
  void met(const Task& task);
  /// Records that the task ended, at this tick of the recorder's clock.
  void ended(const Task& task, std::uint64_t ticks);
  /// Records the start and the end of a launch whose task may be destroyed, with its sequence number and error, if any.
  void began(const Launched& launched, std::uint64_t sequence);
  void ended(const Launched& launched, std::uint64_t sequence, const std::exception_ptr& error);
  /// Notes that the launch was enqueued outside of captures, so that its stream must reach it.
  void expect(std::uint32_t number) { expected_.store(number, std::memory_order_relaxed); }
  /// Notes that a host thread saw the end of the launch.
  void note_noticed(std::uint32_t number) {
    if (number > noticed_.load(std::memory_order_relaxed)) noticed_.store(number, std::memory_order_relaxed);
  }
  /// Returns the progress; callable from any thread.
  [[nodiscard]] GroupProgress progress();
  /// Records that this rank waits for a signal. Returns a handle for signal_ended(); 0 if nothing was recorded.
  std::size_t signal_waits(const std::string& pool, const char* what, int peer, int channel, std::uint64_t number);
  /// Records that the wait of this handle ended, with this error, if any.
  void signal_ended(std::size_t handle, const std::exception_ptr& error);
  /// Detaches from the recorder, which is about to be destroyed.
  void detach() noexcept;

 private:
  // A spin lock, held for a few stores; a mutex would take longer to lock.
  class Held {
   public:
    explicit Held(std::atomic_flag& flag) : flag_(flag) {
      while (flag_.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Held() { flag_.clear(std::memory_order_release); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  // The words of CommRunningRow, except `met`.
  struct Last {
    std::uint64_t begun, ended, failed, count, when, who, what, collective_number, collectives_begun, collectives_ended;
  };
  // The contents of a begin record; 0 ticks: now.
  struct Told {
    std::uint64_t count, what, sequence;
    std::uint32_t number;
    std::uint64_t ticks = 0;
  };
  template <class Count>
  void note_begin(const Told& told, const Count& count);
  void note_replay(probe::Recorder& recorder, probe::Moment now, const Told& told);
  void note_end(std::uint32_t number, bool is_collective, std::uint64_t sequence, const std::exception_ptr& error,
                std::uint64_t ticks = 0);
  void claim_rows(GroupState& group);
  void release_rows() noexcept;
  void put_running();
  std::uint64_t count_messages(std::span<const std::uint32_t> messages);
  void tell(const std::exception_ptr& error) const noexcept;
  probe::StringId label_string(memory::LabelId label);
  probe::StringId device_string(const device::Stream& stream);

  std::mutex* asking_mutex_ = nullptr;
  probe::Recorder* asking_ = nullptr;  // protected by that mutex
  std::atomic_flag flag_;
  probe::Recorder* running_ = nullptr;  // protected by the flag
  std::shared_ptr<RankBook> book_;      // null if nothing is recorded
  probe::Row<CommGroupRow> group_row_;
  std::vector<probe::Row<CommAskedRow>> asked_rows_;
  std::size_t next_asked_ = 0;  // row of the next operation
  probe::Row<CommRunningRow> running_row_;
  probe::Row<ReplayRecord> replay_row_;
  std::vector<std::pair<probe::Row<CommSignalRow>, CommSignalRow>>
      signal_rows_;  // protected by the flag; the index is handle - 1
  Last last_ = {};
  // Written by the thread that runs an operation, without the flag.
  std::optional<probe::ClockSource> clock_;
  std::atomic<std::uint64_t> met_{0};       // when all ranks had arrived at the last started launch; 0: not yet
  std::atomic<std::uint64_t> begun_at_{0};  // when it started
  std::vector<std::uint64_t> messages_;     // number started so far, by 2 * peer, plus 1 for recv
  std::uint32_t number_ = 0;
  std::uint32_t tasks_ = 0;
  std::uint32_t max_begun_ = 0;  // protected by the flag
  std::atomic<std::uint32_t> expected_{0};
  std::atomic<std::uint32_t> noticed_{0};
  const GroupState* group_ = nullptr;
  memory::LabelId label_ = 0;  // the last label, and its string
  probe::StringId label_string_ = {};
  const void* stream_ = nullptr;  // the last stream, and the string of its device
  probe::StringId device_string_ = {};
};

}  // namespace tessera::comm::detail
