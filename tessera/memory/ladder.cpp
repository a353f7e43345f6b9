// What is tried before a request fails, cheapest first. Each step that saved a request is counted.
//
//   covered blocks of other streams -> a wait on the device -> more memory -> pending blocks that have completed
//   -> cached memory given back -> the same after waiting for the streams -> pools that may be borrowed from
//   -> callbacks -> OutOfMemoryError with the report
//
// In a capture nothing is given back and nothing is waited for.
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_scope.h"
#include "tessera/memory/oom_report.h"

namespace tessera::memory {

using detail::Heap;
using detail::Request;

namespace {

class Ladder {
 public:
  Ladder(AllocatorState& state, const Request& request, Heap& heap) : state_(state), request_(request), heap_(heap) {}

  Block* climb() {
    if (request_.capture == nullptr) {
      if (Block* block = state_.take_covered(request_, heap_)) return block;
      if (Block* block = state_.take_by_wait(request_, heap_)) return block;
    }
    if (Block* block = grow()) return block;
    auto& counters = state_.counters;
    if (request_.capture == nullptr) {
      if (Block* block = after("pending blocks", counters.retries_pending, [&] { return promote(); })) return block;
      if (Block* block = after("giving back cached memory", counters.retries_trim, [&] { return trim(); }))
        return block;
      if (state_.policy.may_synchronize && state_.device.captures() == 0) {
        if (Block* block = after("waiting for the streams", counters.retries_synchronize, [&] { return wait(); }))
          return block;
      }
    }
    if (Block* block = borrow()) return block;
    if (Block* block = after("callbacks", counters.retries_callback, [&] { return call_back(); })) return block;
    fail();
  }

 private:
  Block* take() {
    if (request_.capture != nullptr) return state_.take_captured(request_, heap_);
    if (Block* block = state_.take_ready(request_, heap_)) return block;
    return state_.take_covered(request_, heap_);
  }

  // More memory; null where there is no room.
  Block* grow() {
    const std::lock_guard lock(state_.slow_mutex);
    if (Block* block = request_.capture == nullptr ? state_.take_ready(request_, heap_) : nullptr) return block;
    try {
      return state_.grow(request_, heap_);
    } catch (const OutOfMemory& error) {
      reason_ = error.message();
      return nullptr;
    }
  }

  template <class Step>
  Block* after(const char* name, std::atomic<std::uint64_t>& counter, const Step& step) {
    const std::size_t nbytes = step();
    steps_.push_back(std::string(name) + ": " + (nbytes == 0 ? "nothing" : format_bytes(nbytes)));
    if (nbytes == 0) return nullptr;
    Block* block = take();
    if (block == nullptr) block = grow();
    if (block != nullptr) counter.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  std::size_t promote() {
    std::size_t nbytes = 0;
    const std::lock_guard lock(state_.slow_mutex);
    for (const auto& heap : request_.pool->heaps) {
      if (heap->slot == nullptr) continue;
      state_.poll_users(*heap);
      nbytes += state_.promote_completed(*heap);
    }
    return nbytes;
  }

  std::size_t trim() {
    const std::lock_guard lock(state_.slow_mutex);
    std::size_t nbytes = state_.trim_pool(*state_.default_pool);
    if (request_.pool != state_.default_pool) nbytes += state_.trim_pool(*request_.pool);
    for (const auto& pool : state_.pools) {
      if (pool->is_closed) nbytes += state_.trim_pool(*pool);
    }
    return nbytes;
  }

  std::size_t wait() {
    try {
      state_.device.synchronize();
    } catch (const std::exception& error) {
      // What failed on a stream is thrown where the program waits for it, not from an allocation.
      log::debug("allocator of ", state_.name, ": waiting for streams: ", error.what());
    }
    return promote() + trim();
  }

  Block* borrow() {
    if (request_.capture != nullptr) return nullptr;
    std::vector<PoolState*> lenders;
    {
      const std::lock_guard lock(state_.slow_mutex);
      for (const auto& pool : state_.pools) {
        if (!pool->options.borrow_on_oom || pool.get() == request_.pool || pool->is_closed) continue;
        lenders.push_back(pool.get());
        ++pool->borrowers;
      }
    }
    Block* block = nullptr;
    for (PoolState* lender : lenders) {
      if (block == nullptr) block = borrow_from(*lender);
    }
    const std::lock_guard lock(state_.slow_mutex);
    for (PoolState* lender : lenders) --lender->borrowers;
    if (block != nullptr) state_.counters.retries_borrow.fetch_add(1, std::memory_order_relaxed);
    if (block == nullptr && !lenders.empty()) steps_.emplace_back("borrowing from pools: nothing");
    return block;
  }

  Block* borrow_from(PoolState& lender) {
    Request request = request_;
    request.pool = &lender;
    Heap& heap = state_.heap_for(lender, request_.slot);
    Block* block = state_.take_ready(request, heap);
    return block != nullptr ? block : state_.take_covered(request, heap);
  }

  std::size_t call_back() {
    std::vector<std::function<bool(std::size_t)>> callbacks;
    {
      const std::lock_guard lock(state_.callbacks_mutex);
      for (const auto& [number, callback] : state_.pressure_callbacks) callbacks.push_back(callback);
    }
    bool has_freed = false;
    for (const auto& callback : callbacks) has_freed = callback(request_.size) || has_freed;
    if (!has_freed) return 0;
    return request_.size + (request_.capture == nullptr ? promote() + trim() : 0);
  }

  [[noreturn]] void fail();

  AllocatorState& state_;
  const Request& request_;
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
  std::vector<std::function<void(const std::string&)>> observers;
  {
    const std::lock_guard lock(state_.callbacks_mutex);
    observers = state_.oom_observers;
  }
  for (const auto& observer : observers) observer(error.report());
  throw error;
}

}  // namespace

Block* AllocatorState::take_or_grow(const Request& request, Heap& heap) { return Ladder(*this, request, heap).climb(); }

}  // namespace tessera::memory
