#include "tessera/memory/graph_capture.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/memory/detail/capture_scope.h"
#include "tessera/memory/detail/growth.h"
#include "tessera/memory/null_upstream.h"

namespace tessera::memory {

using detail::CaptureScope;
using detail::Heap;

namespace detail {

/// A graph and the resources it holds.
struct CapturedState {
  ~CapturedState();

  AllocatorState* allocator = nullptr;  // kept alive by the pool handles
  std::vector<GraphPart> parts;         // sorted by pool, so that their locks are always taken in the same order
  Pool pool;                            // pool of the capture
  std::string name;
  device::Graph graph;
  device::GraphExec exec;
  std::shared_ptr<GraphKeeper> keeper;
  std::size_t written = 0;
  std::atomic<bool> has_waits{false};  // false: `waits` is empty permanently
  std::mutex waits_mutex;
  std::vector<Use> waits;  // uses of its memory before its capture, until known to be over
};

namespace {

// Captures in progress in this process, by device and id.
struct Scopes {
  std::mutex mutex;
  std::map<std::pair<const device::DeviceState*, CaptureId>, CaptureScope*> all;
};
Scopes& scopes() {
  static Scopes one;
  return one;
}

// Called when a graph is destroyed, or was never created: frees the blocks kept for it.
void release_kept(GraphKeeper& keeper) noexcept {
  std::vector<Block*> kept;
  SlotTicks replays;
  {
    const std::lock_guard lock(keeper.mutex);
    keeper.is_alive = false;
    kept.swap(keeper.kept);
    replays = keeper.replays;
  }
  for (Block* block : kept) block->heap->pool.allocator.finish_kept(block, replays);
}

// Removes its parts from pools. A graph that was never created is no writer.
void leave_pools(const std::vector<GraphPart>& parts) noexcept {
  for (const GraphPart& part : parts) {
    PoolState& pool = *part.pool.state();
    {
      const std::lock_guard lock(pool.replay_mutex);
      const bool was_made = pool.replays.remove(part.key);
      if (!was_made) std::erase_if(pool.graph_keys, [&](const auto& known) { return known.second == part.key; });
    }
    pool.graphs.fetch_sub(1);
  }
}

}  // namespace

CaptureScope* find_scope(const device::DeviceState* device, CaptureId id) {
  if (id == CaptureId{}) return nullptr;
  // Nearly always the capture of this thread.
  for (const ThreadScope* scope = innermost_scope; scope != nullptr; scope = scope->outer) {
    if (scope->capture != nullptr && scope->capture->id == id && scope->allocator->device_key == device)
      return scope->capture;
  }
  Scopes& known = scopes();
  const std::lock_guard lock(known.mutex);
  const auto it = known.all.find({device, id});
  return it != known.all.end() ? it->second : nullptr;
}

CapturedState::~CapturedState() {
  exec.reset();
  leave_pools(parts);
  release_kept(*keeper);
}

}  // namespace detail

namespace {

void begin(CaptureScope& scope, const device::Stream& stream, std::string name) {
  PoolState& pool = *scope.pool.state();
  AllocatorState& state = pool.allocator;
  scope.allocator = &state;
  scope.origin = stream;
  scope.graph = ++state.last_graph;
  scope.name = name.empty() ? "graph " + std::to_string(scope.graph) : std::move(name);
  scope.before = {&stream.slot(), {}, stream.slot().upcoming(), {}};
  // Before the capture begins, the driver can still report which freed blocks of the pool are over.
  if (Heap* heap = pool.capture_heap.load()) {
    const std::lock_guard lock(state.slow_mutex);
    state.reuse.poll_users(*heap);
    state.reuse.promote_completed(*heap);
    const std::lock_guard heap_lock(heap->lock);
    if (heap->sums.live_blocks > 0) scope.before.stream = stream;
  }
  // An event for blocks that may be freed in the capture and were used before it.
  if (scope.before.stream) state.stamp(scope.before);
  {
    // Code that releases memory checks for captures under the same lock.
    const std::lock_guard lock(state.slow_mutex);
    if (!pool.spare_provers.empty()) {
      scope.prover = std::move(pool.spare_provers.back());
      pool.spare_provers.pop_back();
    }
    if (scope.prover == nullptr) scope.prover = std::make_unique<detail::CaptureProver>();
    scope.prover->origin = stream;
    scope.order = &scope.prover->order;
    stream.begin_capture();
  }
  scope.id = stream.capture_info().id;
  detail::make_part(scope, scope.pool);
  {
    detail::Scopes& known = detail::scopes();
    const std::lock_guard lock(known.mutex);
    known.all[{state.device_key, scope.id}] = &scope;
  }
  scope.thread_scope = {&state, &scope.pool, &scope, detail::innermost_scope};
  detail::innermost_scope = &scope.thread_scope;
}

// Memory allocated in the capture may also be used outside it: the streams of the allocations come after pending uses
// of others.
void order_after_past_uses(CaptureScope& scope) noexcept {
  AllocatorState& state = *scope.allocator;
  std::vector<std::pair<StreamId, detail::Use>> waits;
  for (const detail::GraphPart& part : scope.parts) {
    PoolState& pool = *part.pool.state();
    const Heap* heap = pool.capture_heap.load();
    if (heap == nullptr) continue;
    const std::lock_guard lock(heap->lock);
    const std::lock_guard uses_lock(pool.uses_mutex);
    if (pool.past_uses.empty()) continue;
    heap->walk([&](const detail::Segment&, const Block& block) {
      if (block.phase != detail::Phase::kLive || block.graph != scope.graph) return;
      const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
      for (const PoolState::PastUse& past : pool.past_uses) {
        if (begin < past.range.end && past.range.begin < begin + block.size)
          waits.emplace_back(block.slot->id(), past.use);
      }
    });
  }
  for (const auto& [id, use] : waits) {
    const device::Stream stream = state.device.stream(id);
    try {
      if (stream && use.slot->completed() < use.tick && !stream.covers(use.slot->id(), use.tick))
        stream.wait(use.event);
    } catch (const std::exception& error) {
      log::warn("capture '", scope.name, "': ", stream.name(), " could not be made to wait: ", error.what());
    }
  }
}

// Ends the capture: no allocation finds it any more, and deferred blocks are free.
void leave(CaptureScope& scope) noexcept {
  {
    detail::Scopes& known = detail::scopes();
    const std::lock_guard lock(known.mutex);
    known.all.erase({scope.allocator->device_key, scope.id});
  }
  for (detail::ThreadScope** at = &detail::innermost_scope; *at != nullptr; at = &(*at)->outer) {
    if (*at != &scope.thread_scope) continue;
    *at = scope.thread_scope.outer;
    break;
  }
  for (const detail::GraphPart& part : scope.parts) scope.allocator->end_deferral(*part.pool.state(), scope.id);
  order_after_past_uses(scope);
  AllocatorState::end_waiting();
  scope.prover->order.reset();
  scope.prover->origin.reset();
  const std::lock_guard lock(scope.allocator->slow_mutex);
  scope.pool.state()->spare_provers.push_back(std::move(scope.prover));
}

// Returns the sorted, disjoint ranges of one pool that a graph writes.
std::vector<detail::ReplayRange> written_in(const CaptureScope& scope, const PoolState& pool) {
  std::vector<detail::ReplayRange> ranges;
  for (const CaptureScope::Write& write : scope.writes) {
    if (write.pool == &pool) ranges.push_back(write.range);
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<detail::ReplayRange> out;
  for (const detail::ReplayRange& range : ranges) {
    if (!out.empty() && range.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, range.end);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

// Adds the graph to the replay order of a pool.
void add_to_replays(detail::CapturedState& graph, const detail::GraphPart& part, const CaptureScope& scope) {
  PoolState& pool = *part.pool.state();
  const std::vector<detail::ReplayRange> writes = written_in(scope, pool);
  for (const auto& range : writes) graph.written += range.end - range.begin;
  {
    const std::lock_guard lock(pool.uses_mutex);
    for (const PoolState::PastUse& past : pool.past_uses) {
      const bool is_given = std::any_of(writes.begin(), writes.end(), [&](const detail::ReplayRange& range) {
        return range.begin < past.range.end && past.range.begin < range.end;
      });
      if (is_given) graph.waits.push_back(past.use);
    }
  }
  const std::lock_guard lock(pool.replay_mutex);
  std::vector<detail::GraphInput> inputs;
  for (const CaptureScope::CaptureInput& input : scope.inputs) {
    if (input.pool != &pool) continue;
    const auto writer = pool.graph_keys.find(input.graph);
    const bool has_writer = writer != pool.graph_keys.end();
    inputs.push_back({input.range, has_writer ? writer->second : detail::GraphKey{}});
  }
  pool.replays.add(part.key, writes, inputs);
}

}  // namespace

GraphCapture::GraphCapture(Pool pool, const device::Stream& stream, std::string name)
    : scope_(std::make_unique<CaptureScope>()) {
  TESSERA_CHECK(static_cast<bool>(pool),
                "GraphCapture: Pool must not be empty; create one with Allocator::create_pool");
  TESSERA_CHECK(stream.slot().device() == pool.state()->allocator.device_key, "GraphCapture: the stream must be on ",
                pool.state()->allocator.device.name(), ", the device of pool '", pool.name(), "', got ", stream.name(),
                " on ", stream.device().name());
  scope_->pool = std::move(pool);
  begin(*scope_, stream, std::move(name));
}

namespace {

Pool own_pool(const Allocator& allocator, const std::string& name) {
  TESSERA_CHECK(static_cast<bool>(allocator),
                "GraphCapture: Allocator must not be empty; get one with Allocator::of(device)");
  AllocatorState& state = *allocator.state();
  const std::lock_guard lock(state.slow_mutex);
  const std::uint64_t number = ++state.pools.last_graph;
  PoolState& pool =
      state.pools.add({.name = name.empty() ? "graph pool " + std::to_string(number) : name}, {number, 0});
  pool.owner = "graph '" + (name.empty() ? std::to_string(number) : name) + "'";
  return Pool(state.pools.handle_to(pool));
}

}  // namespace

GraphCapture::GraphCapture(const Allocator& allocator, const device::Stream& stream, const std::string& name)
    : GraphCapture(own_pool(allocator, name), stream, name) {}

GraphCapture::~GraphCapture() {
  if (scope_ != nullptr) abandon();
}

void GraphCapture::abandon() noexcept {
  try {
    scope_->origin.abort_capture();
  } catch (const std::exception& error) {
    log::warn("capture '", scope_->name, "' could not be dropped cleanly: ", error.what());
  }
  leave(*scope_);
  detail::leave_pools(scope_->parts);
  detail::release_kept(*scope_->keeper);
}

CapturedGraph GraphCapture::end() {
  TESSERA_CHECK(scope_ != nullptr, "GraphCapture::end: must be called once per capture, got a second call");
  CaptureScope& scope = *scope_;
  device::Graph graph = scope.origin.end_capture();  // if this throws, the capture continues
  auto captured = std::make_shared<detail::CapturedState>();
  captured->keeper = scope.keeper;
  captured->graph = std::move(graph);
  captured->allocator = scope.allocator;
  captured->pool = scope.pool;
  captured->name = scope.name;
  leave(scope);
  const std::unique_ptr<CaptureScope> done = std::move(scope_);  // from here on `captured` owns everything
  captured->parts = std::move(scope.parts);
  std::sort(captured->parts.begin(), captured->parts.end(),
            [](const auto& a, const auto& b) { return a.pool.state().get() < b.pool.state().get(); });
  captured->exec = captured->graph.instantiate();
  for (const detail::GraphPart& part : captured->parts) add_to_replays(*captured, part, scope);
  captured->has_waits = !captured->waits.empty();
  return CapturedGraph(std::move(captured));
}

namespace {

// Memory that was freed outside captures may still be in use by earlier work: the replay comes after it.
void wait_for_earlier_uses(detail::CapturedState& graph, const device::Stream& stream) {
  if (!graph.has_waits.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(graph.waits_mutex);
  std::erase_if(graph.waits, [](const detail::Use& use) { return use.slot->completed() >= use.tick; });
  for (const detail::Use& use : graph.waits) {
    if (use.slot != &stream.slot() && !stream.covers(use.slot->id(), use.tick)) stream.wait(use.event);
  }
  if (graph.waits.empty()) graph.has_waits.store(false, std::memory_order_release);
}

// Holds the replay locks of all pools in which a graph has memory.
class ReplayLocks {
 public:
  explicit ReplayLocks(const std::vector<detail::GraphPart>& parts) : parts_(parts) {
    for (const detail::GraphPart& part : parts_) part.pool.state()->replay_mutex.lock();
  }
  ~ReplayLocks() {
    for (const detail::GraphPart& part : parts_) part.pool.state()->replay_mutex.unlock();
  }
  ReplayLocks(const ReplayLocks&) = delete;
  ReplayLocks& operator=(const ReplayLocks&) = delete;

 private:
  const std::vector<detail::GraphPart>& parts_;
};

}  // namespace

void CapturedGraph::replay(const device::Stream& stream) const {
  TESSERA_CHECK(state_ != nullptr, "replay: CapturedGraph must not be empty; get one from GraphCapture::end");
  const device::StreamSlot& slot = stream.slot();
  if (slot.hazards() != 0 && stream.is_capturing())
    TESSERA_THROW(NotSupported, "replay: stream must not be capturing, got ", stream.name(),
                  "; the reads and writes of '", state_->name, "' could not be checked in replays of the other graph");
  const ReplayLocks locks(state_->parts);
  const auto ordered = [&](StreamId id, Tick tick) {
    if (id == slot.id() && (slot.hazards() & device::StreamSlot::kOverlapping) == 0) return true;
    return stream.covers(id, tick) || state_->allocator->device.completed(id) >= tick;
  };
  for (const detail::GraphPart& part : state_->parts) {
    const std::optional<std::string> refusal =
        part.pool.state()->replays.refusal(part.key, slot.id(), std::cref(ordered));
    TESSERA_CHECK(!refusal.has_value(), *refusal);
  }
  wait_for_earlier_uses(*state_, stream);
  state_->exec.launch(stream);
  const Tick tick = slot.upcoming();
  for (const detail::GraphPart& part : state_->parts) {
    part.pool.state()->replays.replayed(part.key, slot.id(), tick);
    const std::lock_guard uses_lock(part.pool.state()->uses_mutex);
    detail::raise(part.pool.state()->replay_streams, slot, tick);
  }
  const std::lock_guard keeper_lock(state_->keeper->mutex);
  detail::raise(state_->keeper->replays, slot, tick);
}

const device::Graph& CapturedGraph::graph() const { return state_->graph; }
const std::string& CapturedGraph::name() const { return state_->name; }
Pool CapturedGraph::pool() const { return state_->pool; }
std::size_t CapturedGraph::written_nbytes() const { return state_->written; }

namespace {

// Adds ready blocks of these sizes to a heap, separated by taken blocks so that they do not merge. Returns the bytes of
// their segment.
std::size_t add_ready_blocks(Heap& heap, const std::vector<std::size_t>& sizes) {
  std::size_t nbytes = 0;
  for (const std::size_t size : sizes) nbytes += size + kAlignment;
  if (nbytes == 0) return 0;
  Upstream& upstream = *heap.pool.upstream;
  nbytes = (nbytes + upstream.granularity() - 1) / upstream.granularity() * upstream.granularity();
  std::byte* const base = upstream.allocate(nbytes);
  const std::lock_guard lock(heap.lock);
  Block* rest = detail::add_segment(heap, base, nbytes, false, true);
  std::byte* at = base;
  for (const std::size_t size : sizes) {
    Block* block = heap.carve(*rest, at, size);
    at += size + kAlignment;
    rest = block->next;
    rest = heap.carve(*rest, at - kAlignment, kAlignment)->next;
    heap.make_ready(*block);
    if (rest == nullptr) break;
  }
  return nbytes;
}

}  // namespace

std::size_t estimate(const Pool& pool, const device::Stream& stream, const std::function<void()>& body) {
  TESSERA_CHECK(static_cast<bool>(pool), "estimate: Pool must not be empty; create one with Allocator::create_pool");
  AllocatorState& state = pool.state()->allocator;
  Pool trial;
  std::size_t there = 0;
  {
    const std::lock_guard lock(state.slow_mutex);
    trial = Pool(state.pools.handle_to(
        state.pools.add({.name = "estimate", .upstream = address_only_upstream(state.device)}, {}, true)));
  }
  // Memory that the pool has available costs nothing: adds blocks of the same sizes, without memory.
  Heap& heap = detail::capture_heap_of(*trial.state());
  if (const Heap* real = pool.state()->capture_heap.load()) {
    std::vector<std::size_t> sizes;
    {
      const std::lock_guard lock(real->lock);
      real->walk([&](const detail::Segment&, const Block& block) {
        if (block.phase == detail::Phase::kReady) sizes.push_back(block.size);
      });
    }
    const std::lock_guard slow(state.slow_mutex);
    there = add_ready_blocks(heap, sizes);
  }
  {
    GraphCapture capture(trial, stream, "estimate");
    body();
  }
  const std::lock_guard lock(heap.lock);
  return heap.sums.mapped - there;
}

}  // namespace tessera::memory
