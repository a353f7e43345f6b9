// The state of an Allocator handle. Lock order: slow_mutex (growth, trim, pools, captures; may be held during
// driver calls), then heap locks (never held during a driver call; several only for a snapshot, in the order of the
// heaps), then that of a stream.
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
#include "tessera/memory/detail/backing.h"
#include "tessera/memory/detail/callbacks.h"
#include "tessera/memory/detail/history_writer.h"
#include "tessera/memory/detail/live_peak.h"
#include "tessera/memory/detail/pool_state.h"
#include "tessera/memory/detail/pool_table.h"
#include "tessera/memory/detail/reserved_bytes.h"
#include "tessera/memory/detail/reuse.h"
#include "tessera/memory/detail/spare_events.h"

namespace tessera::memory {

namespace detail {

struct CaptureScope;

/// Innermost pool scope of a thread; null if none.
struct ThreadScope {
  AllocatorState* allocator = nullptr;
  const Pool* pool = nullptr;
  CaptureScope* capture = nullptr;  ///< Not null: only for streams in this capture.
  ThreadScope* outer = nullptr;
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadScope* innermost_scope;

/// Counters of rare events, shared by all threads.
struct EventCounters {
  std::atomic<std::uint64_t> covered_reuses{0}, device_waits{0}, events_recorded{0}, capture_reuses{0};
  std::atomic<std::uint64_t> maps{0}, unmaps{0}, moves{0};
  std::atomic<std::uint64_t> retries_pending{0}, retries_trim{0}, retries_synchronize{0}, retries_borrow{0};
  std::atomic<std::uint64_t> retries_callback{0}, collections{0}, out_of_memory{0};
};

/// A request in progress.
struct AllocationRequest {
  std::size_t nbytes = 0;  ///< Requested bytes.
  std::size_t size = 0;    ///< Rounded size.
  const device::Stream& stream;
  const device::StreamSlot& slot;
  PoolState* pool = nullptr;
  CaptureScope* capture = nullptr;  ///< Capture of the stream.
  probe::Moment moment = {};        ///< Time of the request.
};

}  // namespace detail

/// State of one allocator.
struct AllocatorState : std::enable_shared_from_this<AllocatorState> {
  AllocatorState(const device::Device& device, AllocatorOptions options);
  ~AllocatorState();

  const OwnerProcess owner;

  // allocator.cpp
  Buffer allocate_slow(std::size_t nbytes, const device::Stream& stream);
  [[nodiscard]] std::size_t round(std::size_t nbytes) const;
  /// Last step of every allocation: `block` is taken, and the lock of its heap is held.
  void finish(detail::Heap& heap, Block& block, std::size_t nbytes, const device::StreamSlot& slot,
              probe::Moment moment, std::uint32_t stack = 0);
  void retire() noexcept;  ///< called when the last handle is gone
  /// Called when the last handle and the last block are gone: releases everything, after a capture in progress.
  /// Destroys this object.
  void end() noexcept;
  /// Ends the allocators that had to wait for captures, if those are over.
  static void end_waiting() noexcept;
  detail::AllocationRequest request_for(std::size_t nbytes, const device::Stream& stream);

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

  // ladder.cpp: the retry sequence; no lock is held
  Block* take_or_grow(const detail::AllocationRequest& request, detail::Heap& heap);

  // capture.cpp
  Block* take_captured(const detail::AllocationRequest& request, detail::Heap& heap);
  void free_captured(Block* block) noexcept;
  void free_in_capture(detail::CaptureScope& scope, Block& block) noexcept;
  void end_deferral(PoolState& pool, CaptureId capture);

  // snapshot_take.cpp
  Snapshot snapshot(const PoolState* only);
  Statistics statistics();

  device::Device device;
  const device::DeviceState* device_key = nullptr;
  PoolState* default_pool = nullptr;
  std::string name;
  Policy policy;
  std::shared_ptr<Upstream> upstream;
  std::size_t capacity = 0;  ///< maximum of the upstream; queried once, because the driver call is slow
  bool host_writes = false;
  /// Conditions that a free must check besides its block: a checked device, host writes, stacks, no handle left.
  std::atomic<std::uint32_t> special{0};
  enum Special : std::uint32_t { kChecked = 1, kHostWrites = 2, kStacks = 4, kRetired = 8 };
  std::atomic<std::int64_t> kept{0};          ///< freed blocks that graphs hold; changed under heap locks
  std::atomic<std::int64_t> retired_live{0};  ///< after retirement: blocks that are live or held by graphs

  detail::HistoryWriter history;
  detail::EventCounters counters;
  detail::ReservedBytes reserved;
  detail::LivePeak live_peak;

  std::mutex slow_mutex;
  std::atomic<std::uint32_t> last_graph{0};
  detail::PoolTable pools{*this};
  detail::Backing backing{*this};
  detail::Reuse reuse{*this};

  detail::SpareEvents spare_events;
  detail::Callbacks<bool(std::size_t)> pressure_callbacks;
  detail::Callbacks<void(const std::string&)> oom_observers;
};

}  // namespace tessera::memory
