// Writes the history of an allocator to the record of its rank (history.h), and decides when a keyframe is due.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/memory/detail/block.h"
#include "tessera/memory/history.h"

namespace tessera::memory {
struct AllocatorState;
struct PoolState;
}  // namespace tessera::memory

namespace tessera::memory::detail {

class Heap;
class RankHistory;
class StackTable;

/// One per allocator. record_*() are called under the lock of the heap of the block.
class HistoryWriter {
 public:
  HistoryWriter();
  ~HistoryWriter();
  /// Starts recording to the record of the current rank.
  void open(AllocatorState& allocator);
  /// Ends recording, before the rank or the allocator is destroyed.
  void close() noexcept;
  /// Describes a pool in the state table.
  void add_pool(PoolState& pool);

  /// Returns the time for the next record. Read before the heap lock is taken, so that both overlap.
  [[nodiscard]] probe::Moment now() const {
    probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
    return recorder != nullptr && recorder->is_on() ? recorder->begin() : probe::Moment{};
  }
  void record_alloc(Heap& heap, const Block& block, probe::Moment moment);
  void record_free(Heap& heap, const Block& block, bool is_pending, probe::Moment moment, std::uint32_t stack);
  void record_reusable(Heap& heap, const Block& block, bool by_wait, probe::Moment moment);
  void record_map(Heap& heap, std::byte* address, std::size_t nbytes, bool is_mapped, bool is_expandable);
  void record_oom(std::size_t nbytes, std::size_t device_free, StreamId stream, std::uint32_t pool);

  /// Returns true if a keyframe may be due, by the number of allocations of a heap.
  [[nodiscard]] bool is_time_to_look(std::uint64_t allocations) const {
    return (allocations & look_mask_.load(std::memory_order_relaxed)) == 0;
  }
  /// Writes keyframes of all allocators of the rank if a quarter of the ring was written since the last. No lock is
  /// held.
  void write_keyframes_if_due();

  /// Returns the id of the stack of the caller if stacks are recorded, otherwise 0.
  std::uint32_t stack();
  /// Returns the text of a stack.
  [[nodiscard]] std::string stack_text(std::uint32_t stack) const;
  /// Returns the modules in stacks, with the file of each.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> modules() const;
  void record_stacks(bool on);

 private:
  friend class RankHistory;
  /// Returns the string of a label; the heap caches recent ones, so that heaps do not wait for each other.
  probe::StringId label_string(Heap& heap, LabelId label) {
    return label == 0 ? probe::StringId{} : known_label_string(heap, label);
  }
  probe::StringId known_label_string(Heap& heap, LabelId label);
  probe::StringId find_label_string(LabelId label);
  void write_keyframe(probe::Recorder& recorder, RankHistory& shared);
  void detach() noexcept;

  std::atomic<probe::Recorder*> recorder_{nullptr};
  std::weak_ptr<RankHistory> shared_;
  AllocatorState* allocator_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint64_t keyframes_ = 0;
  std::atomic<std::uint64_t> look_mask_{~std::uint64_t{0}};
  std::atomic<StackTable*> stacks_{nullptr};
  std::unique_ptr<StackTable> stack_table_;
  std::mutex labels_mutex_;
  std::map<LabelId, probe::StringId> labels_;
};

}  // namespace tessera::memory::detail
