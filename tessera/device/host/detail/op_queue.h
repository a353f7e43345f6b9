// The operations of one stream, in order. The caller serializes producers; one consumer at a time takes from the front.
// Slots are in segments that return to the producer after the consumer has left them, so that a stream in steady state
// allocates nothing.
//
//   head segment            next                     tail segment
//   [.. .. op op op op] --> [op op op op op op] --> [op op __ __ __ __]       free: [ ] -> [ ]
//          ^ consumer                                      ^ producer
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "tessera/device/host/detail/graph_plan.h"
#include "tessera/device/host/detail/timeline.h"
#include "tessera/device/host_function.h"
#include "tessera/device/replay.h"
#include "tessera/device/stream.h"

namespace tessera::device::host::detail {

class HostHold;
/// The time of a record, for events with timing; -1 before.
using TimeStamp = std::atomic<std::int64_t>;

/// Waits until a word in memory compares true.
struct WaitValueOp {
  const std::uint64_t* from;
  std::uint64_t value;
  Compare compare;
};
/// Waits until the host releases the hold.
struct HoldOp {
  std::shared_ptr<HostHold> hold;
};
/// Publishes a tick, and the time if requested.
struct RecordOp {
  Tick tick;
  std::shared_ptr<TimeStamp> stamp;
};
/// Waits for a point of another stream and inherits its failure.
struct WaitOp {
  Point point;
};
/// Replays a graph after the previous launch of the same executable has ended.
struct GraphOp {
  std::shared_ptr<GraphPlan> plan;
  Point previous;
  std::unique_ptr<LaunchPoints> points;  // null if the graph has no event nodes
  RunningNode replay;                    // number of the replay
};

/// One operation. monostate is a free slot. A HostFunction is work that never waits.
using Op = std::variant<std::monostate, HostFunction, WaitValueOp, HoldOp, RecordOp, WaitOp, GraphOp>;
static_assert(sizeof(Op) <= 128);

/// The queue. One thread at a time calls push(); one thread at a time calls front() and pop().
class OpQueue {
 public:
  OpQueue() : head_(new QueueSegment), tail_(head_) {}
  OpQueue(const OpQueue&) = delete;
  OpQueue& operator=(const OpQueue&) = delete;
  ~OpQueue();

  /// Adds an operation and returns its number, from 1. Throws only if out of memory, and then changes nothing.
  template <class T>
  std::uint64_t push(T&& op) {
    if (tail_at_ == kSlots) [[unlikely]]
      grow();
    // The consumer wrote the next slots on another core: prefetches them before they are needed.
    const char* ahead = reinterpret_cast<const char*>(&tail_->ops[tail_at_]) + kAhead * sizeof(Op);
    __builtin_prefetch(ahead, 1);
    __builtin_prefetch(ahead + 64, 1);
    tail_->ops[tail_at_++].template emplace<std::remove_cvref_t<T>>(std::forward<T>(op));
    const std::uint64_t number = pushed_.load(std::memory_order_relaxed) + 1;
    pushed_.store(number);
    return number;
  }
  /// Counts an operation that the calling consumer holds itself; only while the queue is empty.
  void push_held() { pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  /// Counts that operation as popped and returns its number.
  std::uint64_t pop_held() { return ++popped_; }
  /// Returns the number of operations added.
  [[nodiscard]] std::uint64_t pushed() const { return pushed_.load(); }
  /// Returns the oldest operation not yet popped, or null.
  [[nodiscard]] Op* front() {
    if (popped_ == pushed_.load()) return nullptr;
    if (head_at_ == kSlots) [[unlikely]]
      leave_segment();
    return &head_->ops[head_at_];
  }
  /// Destroys the front operation and returns its number.
  std::uint64_t pop() {
    head_->ops[head_at_++].emplace<std::monostate>();
    return ++popped_;
  }

 private:
  static constexpr std::size_t kSlots = 126;  // a segment has 16 KiB
  static constexpr std::size_t kAhead = 8;
  static constexpr std::size_t kMaxSpare = 64;
  struct QueueSegment {
    Op ops[kSlots];
    QueueSegment* next = nullptr;
  };
  void grow();
  void leave_segment();

  // Used by the consumer.
  alignas(64) QueueSegment* head_;
  std::size_t head_at_ = 0;
  std::uint64_t popped_ = 0;
  // Used by the producer.
  alignas(64) QueueSegment* tail_;
  std::size_t tail_at_ = 0;
  QueueSegment* tail_spare_ = nullptr;  // returned, not yet used
  std::atomic<std::uint64_t> pushed_{0};
  // Returned by the consumer: a stack that the producer takes as one.
  alignas(64) std::atomic<QueueSegment*> returned_{nullptr};
  std::atomic<std::size_t> spare_count_{0};
};

}  // namespace tessera::device::host::detail
