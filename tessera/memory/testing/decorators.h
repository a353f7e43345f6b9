// Decorators: an upstream around another that limits, logs, counts, fails or delays its calls.
//
//   auto limited = std::make_shared<LimitUpstream>(device_upstream(device), std::size_t{4} << 30);
//   Allocator memory(device, {.upstream = std::make_shared<StatisticsUpstream>(limited)});
//
// A decorator has the form of the upstream it wraps. Around a fixed upstream, as_expandable() returns null and
// expandable calls throw NotSupported. Decorators nest in any order. Each has three hooks: before a call, after it
// succeeded, and after it failed. A custom decorator overrides these hooks. All are thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory::testing {

/// The calls of an upstream.
enum class UpstreamCall : std::uint8_t {
  kAllocate,  ///< allocate()
  kFree,      ///< free()
  kReserve,   ///< reserve()
  kRelease,   ///< release()
  kMap,       ///< map()
  kUnmap,     ///< unmap()
  kMove,      ///< move()
};
/// Returns "allocate", "free", ...
std::string_view to_string(UpstreamCall call);

/// One call of an upstream.
struct UpstreamEvent {
  UpstreamCall call;  ///< Kind of the call.
  /// Address of the call; for kMove, the new one. Null before kAllocate and kReserve return.
  std::byte* address = nullptr;
  std::size_t nbytes = 0;     ///< Size of the call.
  std::byte* from = nullptr;  ///< Old address of a kMove.
  /// Returns true if the call acquires memory.
  [[nodiscard]] bool takes() const { return call == UpstreamCall::kAllocate || call == UpstreamCall::kMap; }
  /// Returns true if the call releases memory.
  [[nodiscard]] bool gives() const { return call == UpstreamCall::kFree || call == UpstreamCall::kUnmap; }
};

/// Base of decorators. Forwards every call to the wrapped upstream and calls three hooks.
class UpstreamDecorator : public ExpandableUpstream {
 public:
  /// Wraps `inner`, which must not be null.
  explicit UpstreamDecorator(std::shared_ptr<Upstream> inner);

  [[nodiscard]] std::string name() const override { return inner_->name(); }
  [[nodiscard]] std::size_t granularity() const override { return inner_->granularity(); }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return inner_->capacity_nbytes(); }
  ExpandableUpstream* as_expandable() override { return expandable_ != nullptr ? this : nullptr; }
  std::byte* allocate(std::size_t nbytes) final;
  void free(std::byte* address, std::size_t nbytes) final;
  std::byte* reserve(std::size_t nbytes) final;
  void release(std::byte* address, std::size_t nbytes) final;
  void map(std::byte* address, std::size_t nbytes) final;
  void unmap(std::byte* address, std::size_t nbytes) final;
  void move(std::byte* from, std::byte* to, std::size_t nbytes) final;
  /// Returns the wrapped upstream.
  [[nodiscard]] const std::shared_ptr<Upstream>& inner() const { return inner_; }

 private:
  /// Called before a call is forwarded. An exception rejects the call, and no other hook is called.
  virtual void before(const UpstreamEvent& event) { (void)event; }
  /// Called after the call succeeded.
  virtual void after(const UpstreamEvent& event) noexcept { (void)event; }
  /// Called after the call threw and changed nothing.
  virtual void failed(const UpstreamEvent& event) noexcept { (void)event; }

  template <class Body>
  void pass(UpstreamEvent& event, Body&& body);
  ExpandableUpstream& expandable(UpstreamCall call) const;

  std::shared_ptr<Upstream> inner_;
  ExpandableUpstream* expandable_;
};

/// Limits the memory held through it. Beyond the limit it throws OutOfMemory with the limit, the bytes held and the
/// bytes requested. Counts mapped and allocated memory, but not reservations and moves.
class LimitUpstream final : public UpstreamDecorator {
 public:
  /// Limits `inner` to `nbytes`.
  LimitUpstream(std::shared_ptr<Upstream> inner, std::size_t nbytes);
  [[nodiscard]] std::size_t capacity_nbytes() const override;
  /// Returns the bytes held now.
  [[nodiscard]] std::size_t held_nbytes() const { return held_.load(std::memory_order_relaxed); }
  /// Returns the limit.
  [[nodiscard]] std::size_t limit_nbytes() const { return limit_; }

 private:
  void before(const UpstreamEvent& event) override;
  void after(const UpstreamEvent& event) noexcept override;
  void failed(const UpstreamEvent& event) noexcept override;
  void give(std::size_t nbytes) noexcept;
  std::size_t limit_;
  std::atomic<std::size_t> held_{0};
};

/// Writes a CSV line for every call that acquires or releases memory, in the format of RMM logs, which trace.h reads:
///
///   Thread,Time,Action,Pointer,Size,Stream
///   4711,14:03:22:120345,allocate,0x7f20c0000000,2097152,0x0
///
/// Actions are `allocate` (allocate, map), `free` (free, unmap) and `allocate failure` (pointer 0x0: allocate, map,
/// move or reserve threw). A move is a free and an allocate. Reservations, releases of addresses and failed frees are
/// not logged, because no memory changes its owner. In the log a pointer has one owner at a time. The time is local,
/// and the stream is always 0x0. The text stream is used under a lock and must outlive the decorator.
class LogUpstream final : public UpstreamDecorator {
 public:
  /// First line of the log.
  static constexpr std::string_view kHeader = "Thread,Time,Action,Pointer,Size,Stream";
  /// Logs the calls to `inner`. Writes the header immediately.
  LogUpstream(std::shared_ptr<Upstream> inner, std::ostream& out);

 private:
  void before(const UpstreamEvent& event) override;
  void after(const UpstreamEvent& event) noexcept override;
  void failed(const UpstreamEvent& event) noexcept override;
  void write(std::string_view action, const std::byte* pointer, std::size_t nbytes) noexcept;
  std::mutex mutex_;
  std::ostream& out_;
};

/// Current value, maximum and sum of a quantity.
struct UpstreamCounter {
  std::int64_t value = 0;  ///< Current value. Negative in a scope that released earlier memory.
  std::int64_t peak = 0;   ///< Maximum.
  std::int64_t total = 0;  ///< Sum of all increases.
  /// Compares all fields.
  friend bool operator==(const UpstreamCounter&, const UpstreamCounter&) = default;
};

/// Counters of bytes and chunks (segments for fixed upstreams).
struct UpstreamCounters {
  UpstreamCounter bytes;   ///< Bytes held.
  UpstreamCounter pieces;  ///< Chunks held.
  /// Compares all fields.
  friend bool operator==(const UpstreamCounters&, const UpstreamCounters&) = default;
};

/// Counts the memory held, in nested scopes. Memory that was not acquired through it is not counted when it is
/// released. A chunk counts with the size of its acquisition, so that the outermost value is never negative.
class StatisticsUpstream final : public UpstreamDecorator {
 public:
  /// Counts the calls to `inner`.
  explicit StatisticsUpstream(std::shared_ptr<Upstream> inner);
  /// Returns the counters of the innermost scope.
  [[nodiscard]] UpstreamCounters counters() const;
  /// Opens a scope whose counters start at 0. Returns the counters of the enclosing scope.
  UpstreamCounters push();
  /// Closes the innermost scope, adds it to the enclosing one and returns it. The peak of the enclosing scope becomes
  /// at least its value at push() plus the inner peak. Throws for the outermost scope.
  UpstreamCounters pop();
  /// Returns the number of calls that released memory not acquired through it.
  [[nodiscard]] std::uint64_t unknown_frees() const;

 private:
  void before(const UpstreamEvent& event) override;
  void after(const UpstreamEvent& event) noexcept override;
  void failed(const UpstreamEvent& event) noexcept override;
  mutable std::mutex mutex_;
  std::vector<UpstreamCounters> scopes_;
  std::unordered_map<std::byte*, std::size_t> live_;          // sizes by address
  std::unordered_map<std::thread::id, std::size_t> leaving_;  // memory that a call in progress releases or moves
  std::uint64_t unknown_frees_ = 0;
};

/// Fails one call on request. All calls count, because each may fail in a driver.
class FailUpstream final : public UpstreamDecorator {
 public:
  using UpstreamDecorator::UpstreamDecorator;
  /// Makes the k-th call from now on (1: the next) throw an error of this kind and do nothing else. 0: no call fails.
  void fail_at(std::uint64_t k, ErrorKind kind = ErrorKind::kOutOfMemory);
  /// Returns the number of calls so far, including the failed one.
  [[nodiscard]] std::uint64_t calls() const;

 private:
  void before(const UpstreamEvent& event) override;
  mutable std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::uint64_t remaining_ = 0;
  ErrorKind kind_ = ErrorKind::kOutOfMemory;
};

/// Waits before every call, to simulate a slow driver.
class DelayUpstream final : public UpstreamDecorator {
 public:
  /// Waits `delay` before each call to `inner`.
  DelayUpstream(std::shared_ptr<Upstream> inner, std::chrono::nanoseconds delay);

 private:
  void before(const UpstreamEvent& event) override;
  std::chrono::nanoseconds delay_;
};

}  // namespace tessera::memory::testing
