// Writes what a group does into the record of its rank (records.h).
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
#include "tessera/comm/records.h"
#include "tessera/device/stream.h"
#include "tessera/memory/label.h"

namespace tessera::comm {
struct GroupState;
struct Task;
}  // namespace tessera::comm

namespace tessera::comm::detail {

struct RankBook;

/// What is told of a launch again and again: all that its records need of it.
struct Launched {
  /// Of a task that was asked for by this group rank.
  static Launched of(const Task& task, int rank);
  std::uint64_t count = 0;                      ///< of the operation that it is told by
  std::uint64_t what = 0;                       ///< of that, in a word
  std::uint32_t number = 0;                     ///< among those of its group
  bool is_collective = true;                    ///< it has any
  SmallVector<std::uint32_t, 4> messages = {};  ///< its messages: 2 * peer, and 1 of a recv
};

/// How far a group has come on one rank.
struct GroupProgress {
  std::uint32_t asked = 0;    ///< number of the last launch that was asked for outside of captures
  std::uint32_t begun = 0;    ///< greatest number of one that has begun
  std::uint32_t noticed = 0;  ///< greatest number of one that somebody on the host waited for
  std::uint64_t running = 0;  ///< sequence of the last that has begun
  std::uint64_t ended = 0;    ///< sequence of the last that has ended; the same: nothing runs
  std::uint64_t what = 0;     ///< of the last that has begun, as Launched has it
  std::uint64_t count = 0;    ///< likewise
  std::uint32_t last = 0;     ///< number of that one
  bool has_met = false;       ///< whether all ranks had come to it, where the transport can tell
  friend bool operator==(const GroupProgress&, const GroupProgress&) = default;
};

/// One a group. next_number() and asked() are called by one thread at a time; the rank, and its record with it, may end
/// at any moment. Launches that a device runs may be told of later than they begin and end, and out of order; tables
/// have the latest.
class GroupRecord {
 public:
  GroupRecord() = default;
  ~GroupRecord();
  GroupRecord(const GroupRecord&) = delete;
  GroupRecord& operator=(const GroupRecord&) = delete;

  /// Starts to record a group of the current rank into its record.
  void open(GroupState& group);
  /// Returns the number of the next task among those that are asked for.
  std::uint32_t next_number() { return ++tasks_; }
  /// The task, which has its number, was asked for on this stream, at this tick of the recorder's clock; 0: now.
  void asked(const Task& task, const device::Stream& stream, std::uint64_t ticks = 0);
  /// It has its number and begins to run, at this tick of the recorder's clock.
  void began(const Task& task, std::uint64_t ticks);
  /// All ranks that take part have come.
  void met(const Task& task);
  /// It has ended, at this tick of the recorder's clock.
  void ended(const Task& task, std::uint64_t ticks);
  /// Likewise of one whose task may be gone: it began with this number, and ended with this error or none.
  void began(const Launched& launched, std::uint64_t sequence);
  void ended(const Launched& launched, std::uint64_t sequence, const std::exception_ptr& error);
  /// It was asked for outside of captures, so that its stream is to come to it.
  void expect(std::uint32_t number) { expected_.store(number, std::memory_order_relaxed); }
  /// Somebody on the host saw that it has ended.
  void note_noticed(std::uint32_t number) {
    if (number > noticed_.load(std::memory_order_relaxed)) noticed_.store(number, std::memory_order_relaxed);
  }
  /// For whoever looks, from any thread.
  [[nodiscard]] GroupProgress progress();
  /// Notes that this rank waits for a signal. Returns a handle for signal_ended(); 0 if nothing was recorded.
  std::size_t signal_waits(const std::string& pool, const char* what, int peer, int channel, std::uint64_t number);
  /// Notes that the wait of this handle ended, with this error or none.
  void signal_ended(std::size_t handle, const std::exception_ptr& error);
  /// The recorder goes away.
  void detach() noexcept;

 private:
  // Held for a few stores: a mutex would take longer to lock.
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

  // CommRunningRow, in words, but for the moment when all had met.
  struct Last {
    std::uint64_t begun, ended, failed, count, when, who, what, ordinal, collectives_begun, collectives_ended;
  };
  // What a begin says; at 0 ticks it is told now.
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
  probe::Recorder* asking_ = nullptr;  // under that mutex
  std::atomic_flag flag_;
  probe::Recorder* running_ = nullptr;  // under the flag
  std::shared_ptr<RankBook> book_;      // none: nothing is recorded
  probe::Row<CommGroupRow> group_row_;
  std::vector<probe::Row<CommAskedRow>> asked_rows_;
  std::size_t next_asked_ = 0;  // the row that the next operation takes
  probe::Row<CommRunningRow> running_row_;
  probe::Row<ReplayRecord> replay_row_;
  std::vector<std::pair<probe::Row<CommSignalRow>, CommSignalRow>>
      signal_rows_;  // under the flag; handle - 1 is the index
  Last last_ = {};
  // What the thread that runs an operation notes without the flag.
  std::optional<probe::ClockSource> clock_;
  std::atomic<std::uint64_t> met_{0};       // when all ranks had come to the last that has begun; 0: not yet
  std::atomic<std::uint64_t> begun_at_{0};  // when it began
  std::vector<std::uint64_t> messages_;     // begun so far, by 2 * peer, and 1 of a recv
  std::uint32_t number_ = 0;
  std::uint32_t tasks_ = 0;
  std::uint32_t most_begun_ = 0;  // under the flag
  std::atomic<std::uint32_t> expected_{0};
  std::atomic<std::uint32_t> noticed_{0};
  const GroupState* group_ = nullptr;
  memory::LabelId label_ = 0;  // the last one, and its string
  probe::StringId label_string_ = {};
  const void* stream_ = nullptr;  // likewise, and the string of its device
  probe::StringId device_string_ = {};
};

}  // namespace tessera::comm::detail
