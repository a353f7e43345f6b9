// The states that the handles of this layer point to. Lock order: a stream's lock, then an event's, then the device's.
// No lock is held while work runs, while a thread waits, or while a backend is drained.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/device/backend.h"
#include "tessera/device/detail/access_checker.h"
#include "tessera/device/detail/launch_log.h"
#include "tessera/device/device.h"
#include "tessera/device/stream_slot.h"

namespace tessera::device {

/// True on threads that run a device's work. Such work may release the last handle to a device. Destroying the device
/// there would wait for that same work.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local bool is_device_worker = false;

/// The writable side of a StreamSlot.
struct ClockSlot : StreamSlot {
  std::weak_ptr<StreamState> owner;  // protected by the device's lock

  void place(StreamId id, const DeviceState* device) {
    id_ = id;
    device_ = device;
  }
  /// Takes a new tick; the owner's lock is held. Ordered before all later actions of the caller: see
  /// StreamSlot::upcoming.
  Tick take_tick() { return Tick(tick_.fetch_add(1, std::memory_order_seq_cst) + 1); }
  void raise_completed(Tick to) {
    std::uint64_t seen = completed_.load(std::memory_order_relaxed);
    while (seen < to.value() && !completed_.compare_exchange_weak(seen, to.value(), std::memory_order_acq_rel)) {
    }
  }
  void set_hazard(Hazard hazard, bool on) {
    if (on) {
      hazards_.fetch_or(hazard, std::memory_order_acq_rel);
    } else {
      hazards_.fetch_and(~static_cast<std::uint32_t>(hazard), std::memory_order_acq_rel);
    }
  }
  /// Sets the capture that the stream joins; 0: it leaves.
  void set_capture(CaptureId capture) {
    capture_.store(capture.value(), std::memory_order_release);
    set_hazard(kCapturing, capture != CaptureId{});
  }
  /// A new stream moves in.
  void occupy(bool is_foreign) {
    hazards_.store(is_foreign ? static_cast<std::uint32_t>(kForeign) : 0U, std::memory_order_release);
  }
  /// The stream is gone: a last tick stands for all it did.
  void vacate() {
    tick_.fetch_add(1, std::memory_order_seq_cst);
    hazards_.store(kVacant, std::memory_order_release);
  }
};

/// An active capture. Protected by the device's lock.
struct CaptureState {
  CaptureId id;
  StreamState* origin = nullptr;
  std::vector<std::shared_ptr<StreamState>> members;          // the origin first; keeps them alive until the end
  std::vector<std::shared_ptr<EventState>> external_records;  // events that a replay will record
};

struct DeviceState : std::enable_shared_from_this<DeviceState> {
  ~DeviceState();

  const OwnerProcess owner;  // process that owns everything created through it
  std::string name;
  DeviceProperties properties;
  std::unique_ptr<DeviceBackend> backend;
  FaultInjector faults;
  std::atomic<Device::WaitCheck> wait_check{nullptr};  // see Device::set_wait_check
  std::unique_ptr<detail::AccessChecker> checker;      // null if not checked
  std::atomic<std::size_t> own_nbytes{0};

  std::mutex mutex;
  std::deque<ClockSlot> slots;  // never shrinks, so that pointers stay valid
  std::vector<ClockSlot*> free_slots;
  struct Retiring {
    std::shared_ptr<StreamBackend> backend;  // shared with threads that wait for it
    ClockSlot* slot;
  };
  std::vector<Retiring> retiring;  // streams without handles whose work has not completed
  std::unordered_map<void*, std::weak_ptr<StreamState>> streams;  // by native handle
  std::unordered_map<void*, std::weak_ptr<EventState>> events;    // by native handle
  std::map<CaptureId, std::shared_ptr<CaptureState>> captures;
  std::shared_ptr<StreamState> default_stream;
  std::uint64_t streams_made = 0;

  std::shared_ptr<StreamState> add_stream(std::unique_ptr<StreamBackend> stream, StreamOptions options, bool is_default,
                                          bool is_wrapped);
  std::shared_ptr<EventState> add_event(std::shared_ptr<EventBackend> event, bool timing, bool is_wrapped);
  void retire(std::unique_ptr<StreamBackend> stream, ClockSlot* slot);
  void reap();  // destroys retiring streams whose work has completed
  std::shared_ptr<CaptureState> find_capture(CaptureId id);
  void check_work(bool is_reset) {  // after a wait or a reset
    if (const auto check = wait_check.load(std::memory_order_acquire)) check(*this, is_reset);
  }
};

struct StreamState {
  ~StreamState();

  const OwnerProcess owner;
  DeviceState* device = nullptr;
  std::shared_ptr<DeviceState> keep_device;  // null for the default stream, which the device owns
  std::unique_ptr<StreamBackend> backend;
  std::string name;
  std::atomic<bool> may_spin{false};
  bool is_foreign = false;  // wrapped, or joined a foreign capture: other libraries may capture on it

  std::mutex mutex;
  ClockSlot* slot = nullptr;
  VectorClock clock;
  std::uint64_t before_last_full = 0;  // ticks taken before the latest launch that did not overlap
  int overlap_depth = 0;
  // Begun by Tessera; the driver is queried for a foreign capture of a wrapped stream.
  std::shared_ptr<CaptureState> capture;
  CaptureId dropped_in;  // capture of `dropped`
  Dependencies dropped;  // dependencies removed by set_capture_dependencies
  detail::LaunchLog log;

  [[nodiscard]] StreamId id() const { return slot->id(); }
  Tick take_tick() {
    const Tick tick = slot->take_tick();
    clock.raise(slot->id(), tick);
    return tick;
  }
  // Order of ticks among overlapping launches: see Stream::OverlapScope.
  [[nodiscard]] bool covers(StreamId stream, Tick tick) const {
    if (stream == slot->id() && overlap_depth > 0) return tick.value() <= before_last_full;
    return clock.covers(stream, tick);
  }
  [[nodiscard]] CaptureId capture_id() {
    if (capture != nullptr) return capture->id;
    return is_foreign ? backend->capture_info().id : CaptureId{};
  }
  [[nodiscard]] bool is_capturing() { return capture_id() != CaptureId{}; }
};

struct EventState {
  ~EventState();

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<EventBackend> backend;
  void* native = nullptr;
  bool timing = false;
  bool is_wrapped = false;

  std::mutex mutex;
  bool is_recorded = false;
  CaptureId capture;                // capture of the latest record; 0: eager
  bool is_foreign_capture = false;  // Tessera did not begin that capture
  StreamId stream;                  // stream of the latest eager record
  Tick tick;
  VectorClock clock;
};

struct GraphState {
  ~GraphState();
  std::shared_ptr<DeviceState> device;
  std::unique_ptr<GraphBackend> backend;
  std::vector<std::shared_ptr<EventState>> external_records;
  std::mutex mutex;
};

struct GraphExecState {
  ~GraphExecState();
  std::shared_ptr<DeviceState> device;
  std::shared_ptr<GraphExecBackend> backend;
  std::mutex mutex;
  std::vector<std::shared_ptr<EventState>> external_records;
  std::vector<Access> accesses;  // accesses of all nodes; stored by checked devices
};

struct MemoryState {
  ~MemoryState();
  std::shared_ptr<DeviceState> device;
  std::shared_ptr<MemoryBackend> backend;
  std::size_t nbytes = 0;
  bool is_imported = false;
};

struct RangeState {
  ~RangeState();
  std::shared_ptr<DeviceState> device;
  std::byte* address = nullptr;
  std::size_t nbytes = 0;
  mutable std::mutex mutex;
  std::map<std::size_t, std::shared_ptr<MemoryState>> mappings;  // by offset
  std::size_t mapped_nbytes = 0;
};

struct PinnedState {
  ~PinnedState();
  std::shared_ptr<DeviceState> device;
  std::byte* address = nullptr;
  std::size_t nbytes = 0;
};

}  // namespace tessera::device
