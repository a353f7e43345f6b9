#include "tessera/analysis/memory/history_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "tessera/analysis/memory/detail/history_records.h"
#include "tessera/analysis/memory/detail/rebuilt_heap.h"
#include "tessera/memory/policy.h"

namespace tessera::analysis {
namespace {

using memory::Action;
using memory::AllocRecord;
using memory::BlockRecord;
using memory::BlockState;
using memory::BlockView;
using memory::FreeRecord;
using memory::kAlignment;
using memory::KeyframeRecord;
using memory::kMaxNbytes;
using memory::MapRecord;
using memory::OutOfMemoryRecord;
using memory::PoolId;
using memory::PoolView;
using memory::ReusableRecord;
using memory::RunRecord;
using memory::SegmentView;
using memory::Snapshot;
using memory::TraceEntry;

using detail::HistoryEvent;
using detail::HistoryPool;
using detail::HistoryRecords;
using detail::RebuiltBlock;
using detail::RebuiltHeap;

// Strings are interned in the file and copied into every entry here: limits the cost of a hostile file.
constexpr std::size_t kLongestLabel = 256;
constexpr std::size_t kLongestStack = 4096;
constexpr std::uint64_t kMaxText = std::uint64_t{512} << 20;
// Pools without a row get numbers that no user pool has.
constexpr std::uint64_t kUnknownPools = std::uint64_t{1} << 32;
// Allocator of records whose pool is no longer known; real ones have 32 bits.
constexpr std::uint64_t kUnknownAllocator = std::uint64_t{1} << 32;

bool is_range(std::uint64_t address, std::uint64_t nbytes) {
  return nbytes != 0 && nbytes <= kMaxNbytes && address <= std::numeric_limits<std::uint64_t>::max() - nbytes;
}

// Returns the minimum size of a block for so many bytes; 0 if impossible.
std::uint64_t min_block(std::uint64_t requested) {
  if (requested > kMaxNbytes) return 0;
  return std::max<std::uint64_t>(kAlignment, (requested + kAlignment - 1) / kAlignment * kAlignment);
}

class Texts {
 public:
  explicit Texts(const probe::RecordFile& file) : file_(file) {}

  std::string label(probe::StringId id) { return copy(id, kLongestLabel); }
  std::string stack(probe::StringId id) { return copy(id, kLongestStack); }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  std::string copy(probe::StringId id, std::size_t longest) {
    if (id == probe::StringId{}) return {};
    auto found = known_.find(id);
    if (found == known_.end()) {
      std::string text = file_.string(id);
      if (text.size() > kLongestStack) text.resize(kLongestStack);
      found = known_.emplace(id, std::move(text)).first;
    }
    const std::size_t nbytes = std::min(found->second.size(), longest);
    if (copied_ + nbytes > kMaxText) {
      ++left_out_;
      return {};
    }
    copied_ += nbytes;
    return found->second.substr(0, nbytes);
  }

  const probe::RecordFile& file_;
  std::unordered_map<probe::StringId, std::string> known_;
  std::uint64_t copied_ = 0;
  std::uint64_t left_out_ = 0;
};

// One allocator, as far as it has been read.
struct Rebuilt {
  Snapshot snapshot;
  RebuiltHeap heap;
  std::size_t start = 0;                                       // the first event that determines live blocks
  std::unordered_map<std::uint64_t, std::int64_t> alloc_time;  // by address, of live blocks
  std::set<std::uint32_t> unknown_pools;
};

class Rebuilder {
 public:
  Rebuilder(const probe::RecordFile& file, const HistoryRecords& records)
      : records_(records), texts_(file), notes_(records.notes) {
    for (const auto& [number, pool] : records.pools) add_pool(pool);
    for (const auto& [allocator, begin] : records.keyframes) rebuilt(allocator).start = begin;
  }

  std::vector<Snapshot> run(std::vector<std::string>* notes) {
    for (at_ = 0; at_ < records_.events.size(); ++at_) {
      const HistoryEvent& event = records_.events[at_];
      std::visit([&](const auto& record) { see(record, event.time_ns); }, event.record);
    }
    std::vector<Snapshot> result;
    for (auto& [allocator, each] : all_) {
      finish(allocator, each);
      // Events of removed pools stay without a device only if nothing else is known.
      const bool is_leftover = allocator == kUnknownAllocator && each.snapshot.segments.empty() && !result.empty();
      if (is_leftover || is_gone(allocator)) {
        notes_.push_back(fmt::format("{} events belong to {}; skipped", each.snapshot.trace.size(),
                                     allocator == kUnknownAllocator ? "removed pools" : "a removed allocator"));
      } else {
        each.snapshot.modules = records_.modules;
        result.push_back(std::move(each.snapshot));
      }
    }
    if (senseless_ > 0) notes_.push_back(fmt::format("{} memory records are invalid; skipped", senseless_));
    if (texts_.left_out() > 0)
      notes_.push_back(fmt::format("{} labels and stacks were skipped to save memory", texts_.left_out()));
    if (notes != nullptr) notes->insert(notes->end(), notes_.begin(), notes_.end());
    return result;
  }

 private:
  // Returns true if the allocator has no pool, while others have: its memory was released to the device.
  [[nodiscard]] bool is_gone(std::uint64_t allocator) const {
    return records_.has_all_pools && !records_.pools.empty() &&
           std::ranges::none_of(records_.pools, [&](const auto& each) { return each.second.allocator == allocator; });
  }

  Rebuilt& rebuilt(std::uint64_t allocator) { return all_[allocator]; }

  void add_pool(const HistoryPool& pool) {
    Snapshot& snapshot = rebuilt(pool.allocator).snapshot;
    if (snapshot.device.empty()) snapshot.device = pool.device;
    const PoolId id{pool.graph_id, pool.user_id};
    snapshot.pools.push_back({id, pool.name, pool.graph_id != 0 ? fmt::format("graph {}", pool.graph_id) : ""});
  }

  Rebuilt& owner_of(std::uint32_t pool) {
    const auto found = records_.allocator_of_pool.find(pool);
    const bool is_known = found != records_.allocator_of_pool.end();
    // A pool without a row was removed, perhaps with its allocator, unless rows are missing in the table.
    const bool is_only = all_.size() == 1 && !records_.has_all_pools;
    const std::uint64_t allocator = is_known ? found->second : is_only ? all_.begin()->first : kUnknownAllocator;
    Rebuilt& owner = rebuilt(allocator);
    if (!records_.pools.contains(pool)) owner.unknown_pools.insert(pool);
    return owner;
  }

  [[nodiscard]] PoolId pool_id(std::uint32_t number) const {
    const auto found = records_.pools.find(number);
    if (found == records_.pools.end()) return {0, kUnknownPools + number};
    return {found->second.graph_id, found->second.user_id};
  }

  template <class Record>
  TraceEntry& trace(Rebuilt& owner, Action action, const Record& record, std::int64_t time_ns) {
    TraceEntry& entry = owner.snapshot.trace.emplace_back();
    entry.action = action;
    entry.stream = StreamId{record.stream};
    entry.pool = pool_id(record.pool);
    entry.time_ns = time_ns;
    if constexpr (requires { record.address; }) entry.address = record.address;
    if constexpr (requires { record.requested; }) entry.nbytes = record.requested;
    if constexpr (requires { record.label; }) entry.label = texts_.label(record.label);
    if constexpr (requires { record.stack; }) entry.stack = texts_.stack(record.stack);
    return entry;
  }

  // Returns true if the current event determines live blocks; events before the last complete keyframe do not.
  [[nodiscard]] bool counts(const Rebuilt& owner) const { return at_ >= owner.start; }

  bool makes_sense(std::uint64_t address, std::uint64_t nbytes) {
    if (is_range(address, nbytes)) return true;
    ++senseless_;
    return false;
  }

  template <class Record>
  static RebuiltBlock block_of(const Record& record, std::uint64_t nbytes, bool is_pending, std::int64_t time_ns) {
    RebuiltBlock block;
    block.nbytes = nbytes;
    block.requested = std::min(record.requested, nbytes);
    block.stream = record.stream;
    block.pool = record.pool;
    block.is_pending = is_pending;
    block.time_ns = time_ns;
    if constexpr (requires { record.stack; }) {
      block.label = record.label;
      block.stack = record.stack;
    }
    return block;
  }

  void see(const AllocRecord& record, std::int64_t time_ns) {
    if (!makes_sense(record.address, record.nbytes)) return;
    Rebuilt& owner = owner_of(record.pool);
    trace(owner, Action::kAlloc, record, time_ns);
    owner.alloc_time[record.address] = time_ns;
    if (counts(owner)) owner.heap.put(record.address, block_of(record, record.nbytes, false, time_ns));
  }

  void see(const FreeRecord& record, std::int64_t time_ns) {
    const std::uint64_t least = min_block(record.requested);
    if (!makes_sense(record.address, least)) return;
    Rebuilt& owner = owner_of(record.pool);
    trace(owner, Action::kFreeRequested, record, time_ns);
    if (!record.is_pending) {
      trace(owner, Action::kFreeCompleted, record, time_ns);
      owner.alloc_time.erase(record.address);
      if (counts(owner)) owner.heap.erase(record.address);
    } else if (counts(owner)) {
      if (RebuiltBlock* block = owner.heap.find(record.address)) {
        block->is_pending = true;
      } else {  // allocated before the keyframe began, whose row follows
        RebuiltBlock made = block_of(record, least, true, 0);
        made.label = made.stack = {};
        owner.heap.put(record.address, made);
      }
    }
  }

  void see(const ReusableRecord& record, std::int64_t time_ns) {
    Rebuilt& owner = owner_of(record.pool);
    trace(owner, Action::kFreeCompleted, record, time_ns);
    owner.alloc_time.erase(record.address);
    if (counts(owner)) owner.heap.erase(record.address);
  }

  void see(const MapRecord& record, std::int64_t time_ns) {
    if (!makes_sense(record.address, record.nbytes)) return;
    Rebuilt& owner = owner_of(record.pool);
    trace(owner, record.is_mapped ? Action::kMap : Action::kUnmap, record, time_ns).nbytes = record.nbytes;
    if (!counts(owner)) return;
    if (record.is_mapped) {
      owner.heap.map(record.address, record.nbytes, {record.stream, record.pool, record.is_expandable});
    } else {
      owner.heap.unmap(record.address, record.nbytes);
    }
  }

  void see(const OutOfMemoryRecord& record, std::int64_t time_ns) {
    trace(owner_of(record.pool), Action::kOutOfMemory, record, time_ns).device_free_nbytes = record.device_free;
  }

  void see(const KeyframeRecord&, std::int64_t) {}

  void see(const BlockRecord& record, std::int64_t) {
    if (!makes_sense(record.address, record.nbytes)) return;
    Rebuilt& owner = owner_of(record.pool);
    if (!counts(owner)) return;
    const auto when = owner.alloc_time.find(record.address);
    const std::int64_t time_ns = when != owner.alloc_time.end() ? when->second : 0;
    owner.heap.put(record.address, block_of(record, record.nbytes, record.is_pending, time_ns));
  }

  void see(const RunRecord& record, std::int64_t) {
    if (!makes_sense(record.address, record.nbytes)) return;
    Rebuilt& owner = owner_of(record.pool);
    if (counts(owner))
      owner.heap.map(record.address, record.nbytes, {record.stream, record.pool, record.is_expandable});
  }

  BlockView view_of(std::uint64_t address, const RebuiltBlock& block) {
    BlockView view;
    view.address = address;
    view.nbytes = block.nbytes;
    view.requested_nbytes = block.requested;
    view.state = block.is_pending ? BlockState::kPending : BlockState::kLive;
    view.stream = StreamId{block.stream};
    view.label = texts_.label(block.label);
    view.stack = texts_.stack(block.stack);
    view.time_ns = block.time_ns;
    return view;
  }

  // Memory between blocks is cached.
  SegmentView segment_of(const detail::RebuiltRun& run) {
    SegmentView segment;
    segment.address = run.address;
    segment.nbytes = run.nbytes;
    segment.pool = pool_id(run.owner.pool);
    segment.stream = StreamId{run.owner.stream};
    segment.is_expandable = run.owner.is_expandable;
    std::uint64_t next = run.address;
    const auto fill_to = [&](std::uint64_t end) {
      if (end <= next) return;  // records may be wrong: overlapping blocks leave no gap
      BlockView gap;
      gap.address = next;
      gap.nbytes = end - next;
      gap.stream = segment.stream;
      segment.blocks.push_back(gap);
    };
    for (const auto& [address, block] : run.blocks) {
      fill_to(address);
      segment.blocks.push_back(view_of(address, block));
      next = address + block.nbytes;
    }
    fill_to(run.address + run.nbytes);
    return segment;
  }

  void finish(std::uint64_t allocator, Rebuilt& each) {
    Snapshot& snapshot = each.snapshot;
    if (snapshot.device.empty()) {
      snapshot.device =
          allocator == kUnknownAllocator ? "unknown device" : fmt::format("unknown device of allocator {}", allocator);
    }
    snapshot.trace_is_cut = records_.is_cut;
    std::uint64_t unmapped = 0;
    for (const detail::RebuiltRun& run : each.heap.runs(&unmapped)) snapshot.segments.push_back(segment_of(run));
    for (const std::uint32_t number : each.unknown_pools)
      snapshot.pools.push_back({pool_id(number), fmt::format("pool {} (gone)", number), ""});
    std::sort(snapshot.pools.begin(), snapshot.pools.end(),
              [](const PoolView& a, const PoolView& b) { return a.id < b.id; });
    if (unmapped > 0)
      notes_.push_back(fmt::format("{}: {} blocks are in memory that no record maps", snapshot.device, unmapped));
    if (records_.is_cut && !records_.keyframes.contains(static_cast<std::uint32_t>(allocator)))
      notes_.push_back(
          fmt::format("{}: older records were overwritten and no complete keyframe exists; live blocks are "
                      "shown as far as the remaining records allow",
                      snapshot.device));
  }

  const HistoryRecords& records_;
  Texts texts_;
  std::map<std::uint64_t, Rebuilt> all_;  // by allocator
  std::vector<std::string> notes_;
  std::size_t at_ = 0;
  std::uint64_t senseless_ = 0;
};

}  // namespace

std::vector<Snapshot> read_history(const probe::RecordFile& file, std::vector<std::string>* notes) {
  const HistoryRecords records = HistoryRecords::read(file);
  if (records.events.empty() && records.pools.empty()) return {};
  return Rebuilder(file, records).run(notes);
}

}  // namespace tessera::analysis
