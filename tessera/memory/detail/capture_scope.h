// A capture in progress in the allocator, and the parts that live on in the graph.
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

/// Memory outside its pool that a graph holds. Shared with the blocks.
struct GraphKeeper {
  std::mutex mutex;
  bool is_alive = true;
  SlotTicks replays;         ///< streams and last ticks of the replays
  std::vector<Block*> kept;  ///< freed while the graph can still be replayed
};

/// Memory of a graph in one pool.
struct GraphPart {
  Pool pool;
  GraphKey key;  ///< key in the replay order of the pool; announced until the capture ends
};

/// A stream in a capture, and the last state that the prover received.
struct StreamInCapture {
  explicit StreamInCapture(const device::Stream& met)
      : stream(met), slot(&met.slot()), changes(met.capture_changes()) {}

  device::Stream stream;
  const device::StreamSlot* slot;
  const std::atomic<std::uint64_t>* changes;  ///< Stream::capture_changes
  std::uint64_t told = 0;                     ///< `changes` + 1 at the last driver query; 0: never
  std::size_t dropped = 0;                    ///< position in CaptureInfo::dropped
};

/// A capture in progress. `mutex` guards the members after it; locked before heap locks.
struct CaptureScope {
  AllocatorState* allocator = nullptr;
  Pool pool;  ///< pool of the capture; a PoolScope inside it adds others
  CaptureId id;
  device::Stream origin;
  Use before;  ///< all work of the origin stream before the capture
  std::string name;
  std::uint32_t graph = 0;  ///< number of the graph, as in Block::graph
  ThreadScope thread_scope;
  std::shared_ptr<GraphKeeper> keeper = std::make_shared<GraphKeeper>();

  HeapLock mutex;  ///< held during driver queries, which are as short as the work of a heap
  std::unique_ptr<CaptureProver> prover;
  CaptureOrder* order = nullptr;  ///< owned by the prover
  std::vector<GraphPart> parts;   ///< pools in which it has memory, that of the capture first
  struct Write {
    ReplayRange range;
    PoolState* pool = nullptr;  ///< pool of the memory
  };
  std::vector<Write> writes;
  struct CaptureInput {
    ReplayRange range;
    PoolState* pool = nullptr;
    std::uint32_t graph = 0;  ///< graph that wrote it
  };
  std::vector<CaptureInput> inputs;
  std::vector<StreamInCapture> streams;
};

PoolState& pool_of(CaptureScope& scope);
Heap& capture_heap_of(PoolState& pool);
/// Returns the capture of this id on this device that GraphCapture began; null if none.
CaptureScope* find_scope(const device::DeviceState* device, CaptureId id);

/// Returns the capture of the stream; 0 if none. A wrapped stream may be in a capture of another library: the driver is
/// queried.
inline CaptureId capture_of(const device::Stream& stream) {
  const device::StreamSlot& slot = stream.slot();
  const CaptureId ours = slot.capture();
  const bool is_foreign = (slot.hazards() & device::StreamSlot::kForeign) != 0;
  return is_foreign && ours == CaptureId{} ? stream.capture_info().id : ours;
}

/// Returns true if the graph has memory in the pool: always in that of the capture.
bool has_part(CaptureScope& scope, const PoolState& pool);
/// Called before memory of `pool` is allocated in the capture: the graph holds the pool from now on.
void add_part(CaptureScope& scope, const Pool& pool);
/// Adds a pool in which the graph has no memory yet: that of the capture, when it begins.
void make_part(CaptureScope& scope, const Pool& pool);
/// Returns true if the stream has finished all work. False if the driver does not answer.
bool is_idle(const device::Device& device, const Use& use);

/// Records an allocation in the capture.
void note_captured_alloc(CaptureScope& scope, Block& block);
/// use_on() for a stream that may be capturing. Returns true if nothing else must be recorded.
bool note_captured_use(AllocatorState& state, Block& block, const device::Stream& stream);
/// Frees a block that graphs hold: it waits for them. Returns false if none does.
bool keep_for_graphs(AllocatorState& state, Block& block, std::vector<Use>& uses);
/// Returns true if all replays of removed and existing graphs are known to be over.
bool are_replays_completed(PoolState& pool);

/// Returns the facts of a failed request.
OomFacts oom_facts(AllocatorState& state, const AllocationRequest& request, const device::MemoryUse& use);

}  // namespace tessera::memory::detail
