// What an Allocator handle points at. Locks, in the order they are taken: slow_mutex (growth, trim, pools, captures;
// may be held around driver calls), then heap locks (never around a driver call; more than one only for a snapshot, in
// the order of the heaps), then a stream's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/detail/growth.h"
#include "tessera/memory/detail/history_writer.h"
#include "tessera/memory/detail/live_peak.h"
#include "tessera/memory/detail/pool_state.h"

namespace tessera::memory {

namespace detail {

struct CaptureScope;

/// The innermost pool scope of a thread; null: none.
struct ThreadScope {
  AllocatorState* allocator = nullptr;
  const Pool* pool = nullptr;
  CaptureScope* capture = nullptr;  ///< not null: only for streams in this capture
  ThreadScope* outer = nullptr;
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadScope* innermost_scope;

/// What happened rarely enough for a shared counter.
struct Counters {
  std::atomic<std::uint64_t> covered_reuses{0}, device_waits{0}, events_recorded{0}, capture_reuses{0};
  std::atomic<std::uint64_t> maps{0}, unmaps{0}, moves{0};
  std::atomic<std::uint64_t> retries_pending{0}, retries_trim{0}, retries_synchronize{0}, retries_borrow{0};
  std::atomic<std::uint64_t> retries_callback{0}, collections{0}, out_of_memory{0};
};

/// A request on its way.
struct Request {
  std::size_t nbytes = 0;  ///< asked for
  std::size_t size = 0;    ///< rounded
  const device::Stream& stream;
  const device::StreamSlot& slot;
  PoolState* pool = nullptr;
  CaptureScope* capture = nullptr;  ///< the capture the stream is in
  probe::Moment moment = {};        ///< when it came
};

}  // namespace detail

/// See the head of this file.
struct AllocatorState : std::enable_shared_from_this<AllocatorState> {
  AllocatorState(const device::Device& device, AllocatorOptions options);
  ~AllocatorState();

  const OwnerProcess owner;

  // allocator.cpp
  Buffer allocate_slow(std::size_t nbytes, const device::Stream& stream);
  detail::Heap& heap_for(PoolState& pool, const device::StreamSlot& slot);
  /// A heap without memory; `slot` null: for captures. slow_mutex is held.
  detail::Heap& add_heap(PoolState& pool, const device::StreamSlot* slot);
  [[nodiscard]] std::size_t round(std::size_t nbytes) const;
  /// The last step of every allocation: `block` is taken, its heap's lock is held.
  void finish(detail::Heap& heap, Block& block, std::size_t nbytes, const device::StreamSlot& slot,
              probe::Moment moment, std::uint32_t stack = 0);
  PoolState& add_pool(PoolOptions options, PoolId id, bool is_imaginary = false);
  std::shared_ptr<PoolState> handle_to(PoolState& pool);
  void release_pool(PoolState& pool) noexcept;
  /// Gives back what it can of a pool that nobody holds; removes it when it is empty. slow_mutex is held.
  void shrink_closed(PoolState& pool) noexcept;
  void shrink_all_closed() noexcept;
  void retire() noexcept;  ///< the last handle is gone
  /// The last handle and the last block are gone: gives everything back, after a capture that is under way. This object
  /// is no more.
  void end() noexcept;
  /// Ends the allocators that had to wait for captures, where those are over.
  static void end_waiting() noexcept;
  detail::Request request_for(std::size_t nbytes, const device::Stream& stream);

  // reuse.cpp: blocks that others used
  Block* take_covered(const detail::Request& request, detail::Heap& own);
  Block* take_by_wait(const detail::Request& request, detail::Heap& own, bool may_wait);
  Block* take_ready(const detail::Request& request, detail::Heap& own);
  [[nodiscard]] bool is_over(const detail::Heap& heap, const Block& block, const device::Stream& stream) const;
  [[nodiscard]] bool is_completed(const detail::Heap& heap, const Block& block) const;
  std::size_t promote_completed(detail::Heap& heap);
  /// A pending block is over for its taker: from here on the heap's own tick speaks for it. The heap's lock is held.
  void settle(detail::Heap& heap, Block& block, probe::Moment moment);
  /// Asks the driver how far the streams are that the heap's free blocks wait for. No heap lock is held.
  void poll_users(detail::Heap& heap);

  // free.cpp
  void free_slow(Block* block) noexcept;
  void free_with(Block* block, std::vector<detail::Use> uses) noexcept;
  void finish_kept(Block* block, const detail::SlotTicks& replays) noexcept;
  void stamp(detail::Use& use) noexcept;
  void forbid(const Block& block) noexcept;
  void note_block_freed(detail::Heap& heap, Block& block, bool is_pending, probe::Moment moment,
                        std::uint32_t stack = 0);
  std::unique_lock<std::mutex> hold_closed(const PoolState& pool) noexcept;
  void block_is_back(std::unique_lock<std::mutex>& slow, bool is_retired) noexcept;

  // grow.cpp: memory under heaps; slow_mutex is held
  Block* grow(const detail::Request& request, detail::Heap& heap);
  std::size_t trim_pool(PoolState& pool, const std::function<bool(const Block&)>& wanted = {});
  std::size_t trim_all();
  /// Takes cached memory that could go out of all lists, whether its uses have completed or not, so that it is not used
  /// again while it is waited for. Returns whether there was any.
  bool set_aside(PoolState& pool);
  /// Gives what is set aside to the upstream where its uses have completed. Returns the bytes given.
  std::size_t give_back_aside();
  /// What is set aside is cached again.
  void cache_aside() noexcept;
  void collect_by_age();
  void free_segments(detail::Heap& heap) noexcept;

  // ladder.cpp: what is tried before a request fails; no lock is held
  Block* take_or_grow(const detail::Request& request, detail::Heap& heap);

  // capture.cpp
  Block* take_captured(const detail::Request& request, detail::Heap& heap);
  void free_captured(Block* block) noexcept;
  void free_in_capture(detail::CaptureScope& scope, Block& block) noexcept;
  void end_deferral(PoolState& pool, CaptureId capture);

  // snapshot_take.cpp
  Snapshot snapshot(const PoolState* only);
  Statistics statistics();

  std::vector<detail::Heap*> all_heaps();  ///< slow_mutex is held

  device::Device device;
  const device::DeviceState* device_key = nullptr;
  PoolState* default_pool = nullptr;
  std::string name;
  Policy policy;
  std::atomic<std::size_t> limit{0};  ///< 0: none
  std::shared_ptr<Upstream> upstream;
  std::size_t capacity = 0;  ///< the most the upstream could ever give: asked once, since the driver takes its time
  bool host_writes = false;
  /// Anything that a free must look at beside its block: a checked device, host writes, stacks, no handle left.
  std::atomic<std::uint32_t> special{0};
  enum Special : std::uint32_t { kChecked = 1, kHostWrites = 2, kStacks = 4, kRetired = 8 };
  std::atomic<std::int64_t> kept{0};          ///< blocks that were freed and that graphs hold; changed under heap locks
  std::atomic<std::int64_t> retired_live{0};  ///< once retired: blocks that are live or held by graphs

  detail::HistoryWriter history;
  detail::Counters counters;
  std::atomic<std::size_t> reserved{0}, peak_reserved{0};
  detail::LivePeak live_peak;

  std::mutex slow_mutex;
  std::vector<detail::FreePiece> aside;           ///< by requests that wait for streams; anyone may give it back
  int waiting = 0;                                ///< such requests
  std::vector<std::unique_ptr<PoolState>> pools;  ///< the default one first
  std::size_t gone_peaks = 0;                     ///< peaks of heaps that are gone, since the peaks were reset
  std::uint64_t last_user_pool = 0;
  std::uint64_t last_graph_pool = 0;
  std::atomic<std::uint32_t> last_graph{0};
  std::vector<device::Event> spare_events;  ///< guarded by events_mutex
  std::mutex events_mutex;

  std::mutex callbacks_mutex;
  std::map<std::uint64_t, std::function<bool(std::size_t)>> pressure_callbacks;
  std::vector<std::function<void(const std::string&)>> oom_observers;
  std::uint64_t last_callback = 0;
};

}  // namespace tessera::memory
