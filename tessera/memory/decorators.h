// Decorators: an upstream around another that limits, logs, counts, fails or delays its calls.
//
//   auto limited = std::make_shared<LimitUpstream>(device_upstream(device), std::size_t{4} << 30);
//   Allocator memory(device, {.upstream = std::make_shared<StatisticsUpstream>(limited)});
//
// A decorator has the form of what it wraps: around a fixed upstream it is fixed (as_expandable() is null and the calls
// of that form are refused as NotSupported), else expandable. They nest in any order. Each sees a call before it goes
// on, after it was done, or after it failed; a decorator of your own overrides those three. All are thread-safe.
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
#include "tessera/base/export.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory {

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
/// "allocate", "free", ...
TESSERA_API std::string_view to_string(UpstreamCall call);

/// One call.
struct UpstreamEvent {
  UpstreamCall call;             ///< which
  std::byte* address = nullptr;  ///< its address; of a move the new one; null before allocate and reserve are done
  std::size_t nbytes = 0;        ///< its size
  std::byte* from = nullptr;     ///< of a move: the old address
  /// Whether it takes memory.
  [[nodiscard]] bool takes() const { return call == UpstreamCall::kAllocate || call == UpstreamCall::kMap; }
  /// Whether it gives memory back.
  [[nodiscard]] bool gives() const { return call == UpstreamCall::kFree || call == UpstreamCall::kUnmap; }
};

/// An upstream around another, of the same form. Passes every call on; see the three hooks.
class TESSERA_API UpstreamDecorator : public ExpandableUpstream {
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
  /// What it wraps.
  [[nodiscard]] const std::shared_ptr<Upstream>& inner() const { return inner_; }

 private:
  /// Before the call goes on; an exception refuses it, and neither of the others is called.
  virtual void before(const UpstreamEvent& event) { (void)event; }
  /// The call was done.
  virtual void after(const UpstreamEvent& event) noexcept { (void)event; }
  /// The call threw, and so changed nothing.
  virtual void failed(const UpstreamEvent& event) noexcept { (void)event; }

  template <class Body>
  void pass(UpstreamEvent& event, Body&& body);
  ExpandableUpstream& expandable(UpstreamCall call) const;

  std::shared_ptr<Upstream> inner_;
  ExpandableUpstream* expandable_;
};

/// Refuses to hold more than a number of bytes: OutOfMemory names the limit, what is held and what was wanted. Counts
/// memory that is mapped or allocated through it; addresses alone and moves count nothing.
class TESSERA_API LimitUpstream final : public UpstreamDecorator {
 public:
  /// At most `nbytes` through `inner`.
  LimitUpstream(std::shared_ptr<Upstream> inner, std::size_t nbytes);
  [[nodiscard]] std::size_t capacity_nbytes() const override;
  /// Bytes held through it now.
  [[nodiscard]] std::size_t held_nbytes() const { return held_.load(std::memory_order_relaxed); }
  /// The limit.
  [[nodiscard]] std::size_t limit_nbytes() const { return limit_; }

 private:
  void before(const UpstreamEvent& event) override;
  void after(const UpstreamEvent& event) noexcept override;
  void failed(const UpstreamEvent& event) noexcept override;
  void give(std::size_t nbytes) noexcept;
  std::size_t limit_;
  std::atomic<std::size_t> held_{0};
};

/// Writes a CSV line for every call that takes or gives memory, in the format of RMM's logs, which trace.h reads back:
///
///   Thread,Time,Action,Pointer,Size,Stream
///   4711,14:03:22:120345,allocate,0x7f20c0000000,2097152,0x0
///
/// Actions are `allocate` (allocate, map), `free` (free, unmap) and `allocate failure` (pointer 0x0: allocate, map,
/// move or reserve threw). A move is a free and an allocate. Nothing is written for addresses that are reserved or
/// released, since no memory changes hands, nor for a free that failed, since nothing happened. In the log a pointer
/// has one owner at a time. The time is local, the stream always 0x0. The text stream is used under a lock and must
/// outlive the decorator.
class TESSERA_API LogUpstream final : public UpstreamDecorator {
 public:
  /// The first line of the log.
  static constexpr std::string_view kHeader = "Thread,Time,Action,Pointer,Size,Stream";
  /// Logs the calls to `inner` and writes the header at once.
  LogUpstream(std::shared_ptr<Upstream> inner, std::ostream& out);

 private:
  void before(const UpstreamEvent& event) override;
  void after(const UpstreamEvent& event) noexcept override;
  void failed(const UpstreamEvent& event) noexcept override;
  void write(std::string_view action, const std::byte* pointer, std::size_t nbytes) noexcept;
  std::mutex mutex_;
  std::ostream& out_;
};

/// How much there is, the most there was, and all there ever was.
struct UpstreamCounter {
  std::int64_t value = 0;  ///< now; below 0 in a scope that gave back what was taken before it
  std::int64_t peak = 0;   ///< most at once
  std::int64_t total = 0;  ///< taken in all
  /// Same numbers.
  friend bool operator==(const UpstreamCounter&, const UpstreamCounter&) = default;
};

/// Bytes and pieces (of fixed upstreams: segments).
struct UpstreamCounters {
  UpstreamCounter bytes;   ///< in bytes
  UpstreamCounter pieces;  ///< in pieces
  /// Same numbers.
  friend bool operator==(const UpstreamCounters&, const UpstreamCounters&) = default;
};

/// Counts what is held, in nested scopes. What was never taken through it is not counted when it is given back, and a
/// piece counts with the size it was taken with, so that the outermost value is never below 0.
class TESSERA_API StatisticsUpstream final : public UpstreamDecorator {
 public:
  /// Counts the calls to `inner`.
  explicit StatisticsUpstream(std::shared_ptr<Upstream> inner);
  /// The counters of the innermost scope.
  [[nodiscard]] UpstreamCounters counters() const;
  /// Opens a scope whose counters start at 0; returns those of the scope before.
  UpstreamCounters push();
  /// Closes the innermost scope, folds it into the one before (whose peak is at least what it held plus this one's
  /// peak) and returns it. The outermost cannot be closed.
  UpstreamCounters pop();
  /// Calls that gave back what was not taken through it.
  [[nodiscard]] std::uint64_t unknown_frees() const;

 private:
  void before(const UpstreamEvent& event) override;
  void after(const UpstreamEvent& event) noexcept override;
  void failed(const UpstreamEvent& event) noexcept override;
  mutable std::mutex mutex_;
  std::vector<UpstreamCounters> scopes_;
  std::unordered_map<std::byte*, std::size_t> live_;          // sizes by address
  std::unordered_map<std::thread::id, std::size_t> leaving_;  // what a call that has not ended gives back or moves
  std::uint64_t unknown_frees_ = 0;
};

/// Fails one call on request. All calls are counted, since each may fail in a driver.
class TESSERA_API FailUpstream final : public UpstreamDecorator {
 public:
  using UpstreamDecorator::UpstreamDecorator;
  /// Makes the k-th call from now on (1: the next) throw an error of this kind and do nothing else; 0: none.
  void fail_at(std::uint64_t k, ErrorKind kind = ErrorKind::kOutOfMemory);
  /// Calls so far, the failed one included.
  [[nodiscard]] std::uint64_t calls() const;

 private:
  void before(const UpstreamEvent& event) override;
  mutable std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::uint64_t remaining_ = 0;
  ErrorKind kind_ = ErrorKind::kOutOfMemory;
};

/// Waits before every call, as a slow driver would.
class TESSERA_API DelayUpstream final : public UpstreamDecorator {
 public:
  /// Waits `delay` before each call to `inner`.
  DelayUpstream(std::shared_ptr<Upstream> inner, std::chrono::nanoseconds delay);

 private:
  void before(const UpstreamEvent& event) override;
  std::chrono::nanoseconds delay_;
};

}  // namespace tessera::memory
