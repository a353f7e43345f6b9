// The state behind a Pool handle: the heaps of a pool, one per stream, and one for all captures into it. Owned by its
// allocator, so that blocks outlive handles.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/memory/detail/callbacks.h"
#include "tessera/memory/detail/heap.h"
#include "tessera/memory/detail/replay_order.h"
#include "tessera/memory/history.h"
#include "tessera/memory/pool.h"

namespace tessera::memory {

struct AllocatorState;

namespace detail {

/// Ticks that streams must reach; few.
using SlotTicks = std::vector<std::pair<const device::StreamSlot*, Tick>>;
inline void raise(SlotTicks& ticks, const device::StreamSlot& slot, Tick tick) {
  for (auto& [known, latest] : ticks) {
    if (known != &slot) continue;
    latest = tick;
    return;
  }
  ticks.emplace_back(&slot, tick);
}

/// A prover and the stream it queries. Reused by later captures, because the first access to its memory costs more than
/// the proofs.
struct CaptureProver {
  device::Stream origin;
  CaptureOrder order{[this](NodeId node, std::vector<device::Dependency>& out) {
    const device::Dependencies found = origin.capture_predecessors(node);
    out.insert(out.end(), found.begin(), found.end());
  }};
};

/// Heaps by stream. A look-up is two loads; adding is guarded by the slow lock of the allocator.
class HeapDirectory {
 public:
  ~HeapDirectory() {
    for (auto& chunk : chunks_) delete[] chunk.load();
  }
  [[nodiscard]] Heap* find(StreamId stream) const {
    const std::size_t at = stream.value();
    if (at >= kChunks * kChunk) [[unlikely]]
      return nullptr;
    const std::atomic<Heap*>* chunk = chunks_[at / kChunk].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk[at % kChunk].load(std::memory_order_acquire) : nullptr;
  }
  void add(StreamId stream, Heap* heap) {
    auto& chunk = chunks_[stream.value() / kChunk];
    if (chunk.load() == nullptr) {
      auto* const fresh = new std::atomic<Heap*>[kChunk]();
      chunk.store(fresh, std::memory_order_release);
    }
    chunk.load()[stream.value() % kChunk].store(heap, std::memory_order_release);
  }
  static constexpr std::size_t kMaxStreams = 64 * 64;

 private:
  static constexpr std::size_t kChunk = 64;
  static constexpr std::size_t kChunks = kMaxStreams / kChunk;
  std::array<std::atomic<std::atomic<Heap*>*>, kChunks> chunks_{};
};

}  // namespace detail

/// State of one pool.
struct PoolState {
  explicit PoolState(AllocatorState& owning) : allocator(owning) {}

  AllocatorState& allocator;
  PoolId id;
  std::string name;
  std::string owner;  ///< purpose of the pool, for reports
  PoolOptions options;
  std::shared_ptr<Upstream> upstream;
  std::size_t capacity = 0;                  ///< maximum of the upstream
  ExpandableUpstream* expandable = nullptr;  ///< null: fixed segments
  std::uint32_t number = 0;                  ///< number in the record file; 0: not recorded
  probe::Row<MemoryPoolRow> row;

  detail::HeapDirectory by_stream;
  std::vector<std::unique_ptr<detail::Heap>> heaps;  ///< all heaps; guarded by the slow lock
  std::atomic<detail::Heap*> capture_heap{nullptr};

  detail::Callbacks<void(const Growth&)> growth_callbacks;

  std::mutex replay_mutex;  ///< guards the following members
  detail::ReplayOrder replays;
  std::map<std::uint32_t, detail::GraphKey> graph_keys;  ///< by number of the graph; missing if its capture was dropped

  std::mutex uses_mutex;             ///< guards the following members; no other lock is taken under it
  detail::SlotTicks replay_streams;  ///< streams of graph replays, with the latest tick
  struct PastUse {
    detail::ReplayRange range;
    detail::Use use;
  };
  std::vector<PastUse> past_uses;  ///< of memory that captures received before streams had finished with it

  std::vector<std::unique_ptr<detail::CaptureProver>> spare_provers;  ///< guarded by the slow lock
  std::atomic<int> graphs{0};          ///< replayable graphs captured into it, and captures in progress
  int borrowers = 0;                   ///< requests that search it for memory; guarded by the slow lock
  bool is_imaginary = false;           ///< for estimates only: not counted and not recorded
  std::atomic<bool> is_closed{false};  ///< no handle is left
};

}  // namespace tessera::memory
