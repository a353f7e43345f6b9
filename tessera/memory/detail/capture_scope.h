// A capture under way, as the allocator sees it, and what outlives it in the graph.
#pragma once

#include <cstdint>
#include <map>
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

  std::mutex mutex;
  std::unique_ptr<CaptureProver> prover;
  CaptureOrder* order = nullptr;  ///< the prover's
  std::map<const device::StreamSlot*, std::size_t> dropped_seen;
  std::vector<GraphPart> parts;  ///< the pools in which it has memory, that of the capture first
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
  std::vector<device::Stream> streams;  ///< that were met in the capture
};

PoolState& pool_of(CaptureScope& scope);
Heap& capture_heap_of(PoolState& pool);
/// The capture of this id on this device that was begun through GraphCapture; null: none.
CaptureScope* find_scope(const device::DeviceState* device, CaptureId id);

/// Remembers a stream, so that it is found by its slot. The scope's lock is held.
void know_stream(CaptureScope& scope, const device::Stream& stream);
/// The stream of a slot; null: it is gone. The scope's lock is held.
const device::Stream* known_stream(AllocatorState& state, CaptureScope& scope, const device::StreamSlot& slot);

/// Whether the graph will have memory in the pool.
bool has_part(CaptureScope& scope, const PoolState& pool);
/// Memory of `pool` is about to be handed out in the capture: the graph keeps the pool from now on.
void add_part(CaptureScope& scope, const Pool& pool);
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
