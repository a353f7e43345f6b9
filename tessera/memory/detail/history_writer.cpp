#include "tessera/memory/detail/history_writer.h"

#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/stack_walk.h"

namespace tessera::memory::detail {

// The writers of one rank, which share its record: a keyframe is due for all when one of them has written much.
class RankHistory : public std::enable_shared_from_this<RankHistory> {
 public:
  ~RankHistory() {
    // The recorder is destroyed right after this.
    for (HistoryWriter* writer : writers) writer->detach();
  }
  std::mutex mutex;
  std::vector<HistoryWriter*> writers;
  std::uint32_t last_allocator = 0;
  std::uint32_t last_pool = 0;
  std::atomic<std::uint64_t> keyframe_at{0};  // slots leased when the last keyframe began
  bool has_warned = false;
};

HistoryWriter::HistoryWriter() = default;
HistoryWriter::~HistoryWriter() = default;

void HistoryWriter::open(AllocatorState& allocator) {
  allocator_ = &allocator;
  probe::Recorder& recorder = probe::recorder();
  RankHistory& shared = current_rank()->part<RankHistory>([] { return std::make_shared<RankHistory>(); });
  shared_ = shared.weak_from_this();
  const std::lock_guard lock(shared.mutex);
  shared.writers.push_back(this);
  number_ = ++shared.last_allocator;
  if (!recorder.is_on()) return;
  // A small ring must be checked more often.
  const std::uint64_t every =
      std::clamp<std::uint64_t>(std::bit_floor(recorder.slots(probe::Ring::kMemory) / 16), 16, 512);
  look_mask_ = every - 1;
  recorder_ = &recorder;
}

void HistoryWriter::close() noexcept {
  if (const auto shared = shared_.lock()) {
    const std::lock_guard lock(shared->mutex);
    std::erase(shared->writers, this);
  }
  recorder_ = nullptr;
}

void HistoryWriter::detach() noexcept {
  const std::lock_guard slow(allocator_->slow_mutex);
  const auto heaps = allocator_->pools.heaps();
  const auto gate = allocator_->live_peak.gate();
  for (Heap* heap : heaps) heap->lock.lock();
  recorder_ = nullptr;
  stacks_ = nullptr;  // the stack table stays, for the texts
  for (const auto& pool : allocator_->pools) pool->row.release();
  for (Heap* heap : heaps) heap->lock.unlock();
}

void HistoryWriter::add_pool(PoolState& pool) {
  if (const auto shared = shared_.lock()) {
    const std::lock_guard lock(shared->mutex);
    pool.number = ++shared->last_pool;
  }
  probe::Recorder* recorder = recorder_.load();
  if (recorder == nullptr) return;
  const MemoryPoolRow row{pool.number,
                          number_,
                          pool.id.graph,
                          pool.id.user,
                          recorder->intern(allocator_->name),
                          recorder->intern(pool.name)};
  pool.row = recorder->table<MemoryPoolRow>().claim(row);
  recorder->write(probe::Ring::kMemory, row);  // the row is released with the pool
}

probe::StringId HistoryWriter::known_label_string(Heap& heap, LabelId label) {
  std::uint64_t& kept = heap.label_strings[label % heap.label_strings.size()];
  if (kept >> 32 != label) kept = std::uint64_t{label} << 32 | find_label_string(label).value();
  return probe::StringId(static_cast<std::uint32_t>(kept));
}

probe::StringId HistoryWriter::find_label_string(LabelId label) {
  if (label == 0) return {};
  const std::lock_guard lock(labels_mutex_);
  auto [it, is_new] = labels_.try_emplace(label);
  if (is_new) it->second = recorder_.load()->intern(Label::text_of(label));
  return it->second;
}

namespace {

// Returns a time for the next record of a heap, later than the last: locks are taken in another order than clocks are
// read.
probe::Moment next_moment(Heap& heap, probe::Moment read) {
  heap.last_moment = std::max(read.value(), heap.last_moment + 1);
  return probe::Moment(heap.last_moment);
}

}  // namespace

void HistoryWriter::record_alloc(Heap& heap, const Block& block, probe::Moment moment) {
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr || heap.pool.number == 0) return;
  recorder->write_at(
      next_moment(heap, moment), probe::Ring::kMemory,
      AllocRecord{reinterpret_cast<std::uint64_t>(block.address), block.requested, block.size, block.slot->id().value(),
                  heap.pool.number, label_string(heap, block.label), probe::StringId(block.stack)});
}

void HistoryWriter::record_free(Heap& heap, const Block& block, bool is_pending, probe::Moment moment,
                                std::uint32_t stack) {
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr || heap.pool.number == 0) return;
  recorder->write_at(
      next_moment(heap, moment), probe::Ring::kMemory,
      FreeRecord{reinterpret_cast<std::uint64_t>(block.address), block.requested, block.slot->id().value(),
                 heap.pool.number, label_string(heap, block.label), probe::StringId(stack), is_pending});
}

void HistoryWriter::record_reusable(Heap& heap, const Block& block, bool by_wait, probe::Moment moment) {
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr || heap.pool.number == 0) return;
  recorder->write_at(next_moment(heap, moment), probe::Ring::kMemory,
                     ReusableRecord{reinterpret_cast<std::uint64_t>(block.address), block.requested,
                                    block.slot->id().value(), heap.pool.number, by_wait});
}

void HistoryWriter::record_map(Heap& heap, std::byte* address, std::size_t nbytes, bool is_mapped, bool is_expandable) {
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr || heap.pool.number == 0) return;
  const std::uint32_t stream = heap.slot != nullptr ? heap.slot->id().value() : 0;
  recorder->write_at(
      next_moment(heap, recorder->begin()), probe::Ring::kMemory,
      MapRecord{reinterpret_cast<std::uint64_t>(address), nbytes, stream, heap.pool.number, is_mapped, is_expandable});
}

void HistoryWriter::record_oom(std::size_t nbytes, std::size_t device_free, StreamId stream, std::uint32_t pool) {
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr) return;
  recorder->write(probe::Ring::kMemory,
                  OutOfMemoryRecord{nbytes, device_free, stream.value(), pool, find_label_string(current_label)});
}

void HistoryWriter::write_keyframes_if_due() {
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  const auto shared = recorder != nullptr ? shared_.lock() : nullptr;
  if (shared == nullptr) return;
  const std::uint64_t now = recorder->leased(probe::Ring::kMemory);
  if (now - shared->keyframe_at.load(std::memory_order_relaxed) < recorder->slots(probe::Ring::kMemory) / 4) return;
  const std::unique_lock lock(shared->mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread is writing
  if (now - shared->keyframe_at < recorder->slots(probe::Ring::kMemory) / 4) return;
  shared->keyframe_at = now;
  for (HistoryWriter* writer : shared->writers) writer->write_keyframe(*recorder, *shared);
}

void HistoryWriter::write_keyframe(probe::Recorder& recorder, RankHistory& shared) {
  constexpr auto kRing = probe::Ring::kMemory;
  const std::unique_lock slow(allocator_->slow_mutex, std::try_to_lock);
  if (!slow.owns_lock()) {  // its memory is being changed: retry soon
    shared.keyframe_at = 0;
    return;
  }
  const std::uint64_t most = recorder.slots(kRing) / 2;
  std::uint32_t rows = 0;
  recorder.write(kRing, KeyframeRecord{++keyframes_, number_, 0, false});
  for (Heap* heap : allocator_->pools.heaps()) {
    if (heap->pool.number == 0) continue;
    const std::lock_guard lock(heap->lock);
    const std::uint32_t stream = heap->slot != nullptr ? heap->slot->id().value() : 0;
    std::byte* run = nullptr;
    const Block* last = nullptr;
    const auto end_run = [&] {
      if (run == nullptr) return;
      recorder.write_at(next_moment(*heap, recorder.begin()), kRing,
                        RunRecord{reinterpret_cast<std::uint64_t>(run), static_cast<std::uint64_t>(last->end() - run),
                                  stream, heap->pool.number, last->segment->is_expandable});
      ++rows;
      run = nullptr;
    };
    heap->walk([&](const Segment& segment, const Block& block) {
      if (&block == segment.first || block.phase == Phase::kHole) end_run();
      if (block.phase == Phase::kHole) return;
      if (run == nullptr) run = block.address;
      last = &block;
      if (block.phase == Phase::kReady || rows >= most) return;
      recorder.write_at(next_moment(*heap, recorder.begin()), kRing,
                        BlockRecord{reinterpret_cast<std::uint64_t>(block.address), block.requested, block.size,
                                    block.slot != nullptr ? block.slot->id().value() : 0,
                                    static_cast<std::uint16_t>(heap->pool.number), block.phase != Phase::kLive,
                                    label_string(*heap, block.label), probe::StringId(block.stack)});
      ++rows;
    });
    end_run();
  }
  if (rows >= most) {
    if (!std::exchange(shared.has_warned, true))
      log::warn("memory history: ", rows,
                " blocks do not fit into the record of this rank; it keeps only recent events; ",
                "raise TESSERA_RECORD_BYTES to record all live blocks");
    return;  // no end: the reader does not take it for whole
  }
  recorder.write(kRing, KeyframeRecord{keyframes_, number_, rows, true});
}

std::uint32_t HistoryWriter::stack() {
  StackTable* stacks = stacks_.load(std::memory_order_relaxed);
  probe::Recorder* recorder = recorder_.load(std::memory_order_relaxed);
  if (stacks == nullptr || recorder == nullptr) return 0;
  return stacks->here(2).value();  // without this function and the allocator
}

std::string HistoryWriter::stack_text(std::uint32_t stack) const {
  return stack == 0 || stack_table_ == nullptr ? std::string() : stack_table_->text_of(probe::StringId(stack));
}

std::vector<std::pair<std::string, std::string>> HistoryWriter::modules() const {
  return stack_table_ != nullptr ? stack_table_->modules() : std::vector<std::pair<std::string, std::string>>();
}

void HistoryWriter::record_stacks(bool on) {
  const std::lock_guard lock(labels_mutex_);
  probe::Recorder* recorder = recorder_.load();
  if (on && stack_table_ == nullptr && recorder != nullptr) stack_table_ = std::make_unique<StackTable>(*recorder);
  stacks_ = on ? stack_table_.get() : nullptr;
}

}  // namespace tessera::memory::detail
