// The retry sequence before a request fails, cheapest first. Each step that succeeds is counted.
//
//   own covered blocks -> with much pending, own blocks after a wait on the device -> covered blocks of other streams
//   -> more memory -> pending blocks that have completed
//   -> releasing cached memory -> the same after waiting for the streams -> pools that may be borrowed from
//   -> callbacks -> OutOfMemoryError with the report
//
// In a capture nothing is released and nothing is waited for.
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_scope.h"
#include "tessera/memory/oom_report.h"

namespace tessera::memory {

using detail::AllocationRequest;
using detail::Heap;

namespace {

// The pools that lend memory, kept alive during the search.
struct Lenders {
  Lenders(AllocatorState& of, const PoolState& borrower) : state(of) {
    const std::lock_guard lock(state.slow_mutex);
    for (const auto& pool : state.pools) {
      if (!pool->options.borrow_on_oom) continue;
      if (pool.get() == &borrower) continue;
      if (pool->is_closed) continue;
      all.push_back(pool.get());
      ++pool->borrowers;
    }
  }
  ~Lenders() {
    const std::lock_guard lock(state.slow_mutex);
    for (PoolState* pool : all) --pool->borrowers;
  }
  Lenders(const Lenders&) = delete;
  Lenders& operator=(const Lenders&) = delete;

  AllocatorState& state;
  std::vector<PoolState*> all;
};

// A request that waits for streams. The last one leaves nothing set aside.
struct Waiting {
  explicit Waiting(AllocatorState& of) : state(of) {
    const std::lock_guard lock(state.slow_mutex);
    ++state.backing.waiting;
  }
  ~Waiting() {
    const std::lock_guard lock(state.slow_mutex);
    if (--state.backing.waiting == 0) state.backing.cache_aside();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  AllocatorState& state;
};

class Ladder {
 public:
  Ladder(AllocatorState& state, const AllocationRequest& request, Heap& heap)
      : state_(state), request_(request), heap_(heap) {}

  Block* climb() {
    if (request_.capture == nullptr) {
      if (Block* block = state_.reuse.take_by_wait(request_, heap_, false)) return block;
      // With much pending, the stream waits for its own memory rather than split that of others.
      if (!has_slack()) {
        if (Block* block = state_.reuse.take_by_wait(request_, heap_, true)) return block;
      }
      if (Block* block = state_.reuse.take_covered(request_, heap_)) return block;
    }
    if (Block* block = grow()) return block;
    auto& counters = state_.counters;
    if (request_.capture == nullptr) {
      if (Block* block = state_.reuse.take_by_wait(request_, heap_, true)) return block;
      if (Block* block = after("pending blocks", counters.retries_pending, [&] { return promote(); })) return block;
      if (Block* block = after("releasing cached memory", counters.retries_trim, [&] { return trim(); })) return block;
      if (state_.policy.may_synchronize && state_.device.captures() == 0) {
        if (Block* block = after_waiting()) return block;
      }
    }
    if (Block* block = borrow()) return block;
    const bool has_freed = call_back();
    const auto use_freed = [&]() -> std::size_t {
      if (!has_freed) return 0;
      return request_.size + (request_.capture == nullptr ? promote() + trim() : 0);
    };
    if (Block* block = after("callbacks", counters.retries_callback, use_freed)) return block;
    fail();
  }

 private:
  Block* take() {
    if (request_.capture != nullptr) return state_.take_captured(request_, heap_);
    if (Block* block = state_.reuse.take_ready(request_, heap_)) return block;
    return state_.reuse.take_covered(request_, heap_);
  }

  // Returns true if so little is pending that growing is better than waiting.
  bool has_slack() {
    std::size_t pending = request_.size;
    const std::lock_guard lock(state_.slow_mutex);
    for (const auto& heap : request_.pool->heaps) {
      if (heap->slot == nullptr) continue;
      const std::lock_guard heap_lock(heap->lock);
      pending += heap->sums.mapped - heap->sums.used - heap->sums.cached;
    }
    return static_cast<double>(pending) <= state_.policy.pending_slack * static_cast<double>(state_.reserved.now());
  }

  // Grows; null if there is no room.
  Block* grow() {
    const std::lock_guard lock(state_.slow_mutex);
    return grow_locked();
  }

  Block* grow_locked() {
    if (Block* block = request_.capture == nullptr ? state_.reuse.take_ready(request_, heap_) : nullptr) return block;
    try {
      return state_.backing.grow(request_, heap_);
    } catch (const OutOfMemory& error) {
      reason_ = error.message();
      return nullptr;
    }
  }

  // The heap grows under the same lock as the step: no other thread can take the released memory.
  template <class Step>
  Block* after(const char* name, std::atomic<std::uint64_t>& counter, const Step& step) {
    std::size_t nbytes = 0;
    Block* block = nullptr;
    {
      const std::lock_guard lock(state_.slow_mutex);
      nbytes = step();
      if (nbytes > 0) block = grow_locked();
    }
    steps_.push_back(tessera::detail::concat(name, ": ", nbytes == 0 ? "nothing" : format_bytes(nbytes)));
    if (nbytes == 0) return nullptr;
    if (block == nullptr) block = take();
    if (block != nullptr) counter.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  // The steps hold slow_mutex.
  std::size_t promote() {
    std::size_t nbytes = 0;
    for (const auto& heap : request_.pool->heaps) {
      if (heap->slot == nullptr) continue;
      state_.reuse.poll_users(*heap);
      nbytes += state_.reuse.promote_completed(*heap);
    }
    return nbytes;
  }

  std::size_t trim() {
    std::size_t nbytes = 0;
    for (PoolState* pool : pools_to_trim()) nbytes += state_.backing.trim(*pool);
    return nbytes;
  }

  std::vector<PoolState*> pools_to_trim() {
    std::vector<PoolState*> pools;
    for (const auto& pool : state_.pools) {
      if (pool.get() == state_.default_pool || pool.get() == request_.pool || pool->is_closed)
        pools.push_back(pool.get());
    }
    return pools;
  }

  // While this thread waits for streams, others keep using cached memory, so that it would never all be completed: it
  // is set aside first. Others may also take memory that was released meanwhile: repeats while there is more.
  Block* after_waiting() {
    constexpr int kMaxRounds = 16;
    const Waiting waiting(state_);
    for (int round = 0; round < kMaxRounds; ++round) {
      if (!set_aside() && round > 0) break;
      try {
        state_.device.synchronize();
      } catch (const std::exception& error) {
        // An error of a stream is thrown where the program waits for it, not from an allocation.
        log::debug("allocator of ", state_.name, ": waiting for streams: ", error.what());
      }
      Block* block = after("waiting for the streams", state_.counters.retries_synchronize,
                           [&] { return state_.backing.release_aside() + promote() + trim(); });
      if (block != nullptr) return block;
    }
    return nullptr;
  }

  // Returns true if waiting could help.
  bool set_aside() {
    const std::lock_guard lock(state_.slow_mutex);
    for (PoolState* pool : pools_to_trim()) state_.backing.set_aside(*pool);
    return state_.backing.has_aside();
  }

  Block* borrow() {
    if (request_.capture != nullptr) return nullptr;
    const Lenders lenders(state_, *request_.pool);
    for (PoolState* lender : lenders.all) {
      AllocationRequest request = request_;
      request.pool = lender;
      Heap& heap = state_.pools.heap_for(*lender, request_.slot);
      Block* block = state_.reuse.take_ready(request, heap);
      if (block == nullptr) block = state_.reuse.take_covered(request, heap);
      if (block == nullptr) continue;
      state_.counters.retries_borrow.fetch_add(1, std::memory_order_relaxed);
      return block;
    }
    if (!lenders.all.empty()) steps_.emplace_back("borrowing from pools: nothing");
    return nullptr;
  }

  bool call_back() {
    bool has_freed = false;
    for (const auto& callback : state_.pressure_callbacks.all()) has_freed = callback(request_.size) || has_freed;
    return has_freed;
  }

  [[noreturn]] void fail();

  AllocatorState& state_;
  const AllocationRequest& request_;
  Heap& heap_;
  std::string reason_;
  std::vector<std::string> steps_;
};

void Ladder::fail() {
  state_.counters.out_of_memory.fetch_add(1, std::memory_order_relaxed);
  const device::MemoryUse use = state_.device.memory_use();
  OomFacts facts = detail::oom_facts(state_, request_, use);
  facts.ladder = std::move(steps_);
  facts.ladder.insert(facts.ladder.begin(), "more memory: " + reason_);
  {
    const std::lock_guard lock(heap_.lock);
    state_.history.record_oom(request_.nbytes, use.free_nbytes, request_.slot.id(), request_.pool->number);
  }
  const OutOfMemoryError error({__FILE__, __LINE__}, facts);
  for (const auto& observer : state_.oom_observers.all()) observer(error.report());
  throw OutOfMemoryError(error);
}

}  // namespace

Block* AllocatorState::take_or_grow(const AllocationRequest& request, Heap& heap) {
  return Ladder(*this, request, heap).climb();
}

}  // namespace tessera::memory
