// A capture under way, as the allocator sees it, and what outlives it in the graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_order.h"
#include "tessera/memory/detail/replay_order.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/oom_report.h"

namespace tessera::memory::detail {

/// What a graph holds of memory outside its pool. Shared with the blocks.
struct GraphKeeper {
  std::mutex mutex;
  bool is_alive = true;
  SlotTicks replays;         ///< where and until when the graph ran
  std::vector<Block*> kept;  ///< freed while the graph can still be replayed
};

/// The memory of a graph in one pool.
struct GraphPart {
  Pool pool;
  GraphKey key;  ///< among the replays of the pool; announced until the capture ends
};

/// A stream that was met in a capture, and how much of what it did there the prover was told.
struct StreamInCapture {
  explicit StreamInCapture(const device::Stream& met)
      : stream(met), slot(&met.slot()), changes(met.capture_changes()) {}

  device::Stream stream;
  const device::StreamSlot* slot;
  const std::atomic<std::uint64_t>* changes;  ///< Stream::capture_changes
  std::uint64_t told = 0;                     ///< value of `changes` + 1 when the driver was asked; 0: never
  std::size_t dropped = 0;                    ///< of CaptureInfo::dropped
};

/// See the head of this file. `mutex` guards what stands behind it; taken before heap locks.
struct CaptureScope {
  AllocatorState* allocator = nullptr;
  Pool pool;  ///< the capture goes into; a PoolScope inside it brings in others
  CaptureId id;
  device::Stream origin;
  Use before;  ///< all that the origin did before the capture
  std::string name;
  std::uint32_t graph = 0;  ///< its number, as in Block::graph
  ThreadScope thread_scope;
  std::shared_ptr<GraphKeeper> keeper = std::make_shared<GraphKeeper>();

  HeapLock mutex;  ///< held around questions to the driver, which take no longer than a heap's own work
  std::unique_ptr<CaptureProver> prover;
  CaptureOrder* order = nullptr;  ///< the prover's
  std::vector<GraphPart> parts;   ///< the pools in which it has memory, that of the capture first
  struct Write {
    ByteRange range;
    PoolState* pool = nullptr;  ///< it lies in
  };
  std::vector<Write> writes;
  struct Input {
    ByteRange range;
    PoolState* pool = nullptr;
    std::uint32_t graph = 0;  ///< that wrote it
  };
  std::vector<Input> inputs;
  std::vector<StreamInCapture> streams;
};

PoolState& pool_of(CaptureScope& scope);
Heap& capture_heap_of(PoolState& pool);
/// The capture of this id on this device that was begun through GraphCapture; null: none.
CaptureScope* find_scope(const device::DeviceState* device, CaptureId id);

/// The capture that the stream is in; 0: none. A wrapped stream may be in one that we did not begin: the driver knows.
inline CaptureId capture_of(const device::Stream& stream) {
  const device::StreamSlot& slot = stream.slot();
  const CaptureId ours = slot.capture();
  const bool is_foreign = (slot.hazards() & device::StreamSlot::kForeign) != 0;
  return is_foreign && ours == CaptureId{} ? stream.capture_info().id : ours;
}

/// Whether the graph will have memory in the pool: always in that of the capture.
bool has_part(CaptureScope& scope, const PoolState& pool);
/// Memory of `pool` is about to be handed out in the capture: the graph keeps the pool from now on.
void add_part(CaptureScope& scope, const Pool& pool);
/// The same for a pool that it has no part in yet: that of the capture, when it begins.
void make_part(CaptureScope& scope, const Pool& pool);
/// Whether the stream has nothing left to do. False where the driver does not say.
bool is_idle(const device::Device& device, const Use& use);

/// A block was handed out in the capture.
void note_captured_alloc(CaptureScope& scope, Block& block);
/// use_on() for a stream that may be capturing. Returns whether nothing is left to note.
bool note_captured_use(AllocatorState& state, Block& block, const device::Stream& stream);
/// A free of a block that graphs hold: it waits for them. Returns false when none does.
bool keep_for_graphs(AllocatorState& state, Block& block, std::vector<Use>& uses);
/// Whether the replays of graphs that are gone, and of those that are there, are known to be over.
bool are_replays_completed(PoolState& pool);

/// The facts of a failed request.
OomFacts oom_facts(AllocatorState& state, const Request& request, const device::MemoryUse& use);

}  // namespace tessera::memory::detail
