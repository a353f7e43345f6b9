#include "tessera/memory/testing/decorators.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <thread>
#include <utility>

#include "tessera/base/bytes.h"

namespace tessera::memory::testing {
namespace {

[[noreturn]] void throw_asked_for(ErrorKind kind, std::uint64_t number, UpstreamCall call) {
  const auto message = [&] { return tessera::detail::concat("call ", number, ", ", call, ", fails on request"); };
  switch (kind) {
    case ErrorKind::kInvalidArgument: TESSERA_THROW(InvalidArgument, message());
    case ErrorKind::kOutOfMemory: TESSERA_THROW(OutOfMemory, message());
    case ErrorKind::kDevice: TESSERA_THROW(DeviceError, message());
    case ErrorKind::kTimeout: TESSERA_THROW(TimeoutError, message());
    case ErrorKind::kAborted: TESSERA_THROW(AbortedError, message());
    case ErrorKind::kMismatch: TESSERA_THROW(MismatchError, message());
    case ErrorKind::kNotSupported: TESSERA_THROW(NotSupported, message());
    case ErrorKind::kIo: TESSERA_THROW(IoError, message());
  }
  TESSERA_THROW(DeviceError, message());
}

void add(UpstreamCounter& counter, std::int64_t amount) {
  counter.value += amount;
  counter.peak = std::max(counter.peak, counter.value);
  if (amount > 0) counter.total += amount;
}

void fold(UpstreamCounter& outer, const UpstreamCounter& scope) {
  outer.peak = std::max(outer.peak, outer.value + scope.peak);
  outer.value += scope.value;
  outer.total += scope.total;
}

}  // namespace

std::string_view to_string(UpstreamCall call) {
  switch (call) {
    case UpstreamCall::kAllocate: return "allocate";
    case UpstreamCall::kFree: return "free";
    case UpstreamCall::kReserve: return "reserve";
    case UpstreamCall::kRelease: return "release";
    case UpstreamCall::kMap: return "map";
    case UpstreamCall::kUnmap: return "unmap";
    case UpstreamCall::kMove: return "move";
  }
  return "?";
}

UpstreamDecorator::UpstreamDecorator(std::shared_ptr<Upstream> inner)
    : inner_(std::move(inner)), expandable_(inner_ != nullptr ? inner_->as_expandable() : nullptr) {
  TESSERA_CHECK(inner_ != nullptr, "a decorator needs an upstream to wrap");
}

template <class Body>
void UpstreamDecorator::pass(UpstreamEvent& event, Body&& body) {
  before(event);
  try {
    body();
  } catch (...) {
    failed(event);
    throw;
  }
  after(event);
}

ExpandableUpstream& UpstreamDecorator::expandable(UpstreamCall call) const {
  TESSERA_CHECK_AS(NotSupported, expandable_ != nullptr, call, ": upstream ", inner_->name(),
                   " supports only complete segments; use allocate and free");
  return *expandable_;
}

std::byte* UpstreamDecorator::allocate(std::size_t nbytes) {
  UpstreamEvent event{UpstreamCall::kAllocate, nullptr, nbytes};
  pass(event, [&] { event.address = inner_->allocate(nbytes); });
  return event.address;
}

void UpstreamDecorator::free(std::byte* address, std::size_t nbytes) {
  UpstreamEvent event{UpstreamCall::kFree, address, nbytes};
  pass(event, [&] { inner_->free(address, nbytes); });
}

std::byte* UpstreamDecorator::reserve(std::size_t nbytes) {
  ExpandableUpstream& to = expandable(UpstreamCall::kReserve);
  UpstreamEvent event{UpstreamCall::kReserve, nullptr, nbytes};
  pass(event, [&] { event.address = to.reserve(nbytes); });
  return event.address;
}

void UpstreamDecorator::release(std::byte* address, std::size_t nbytes) {
  ExpandableUpstream& to = expandable(UpstreamCall::kRelease);
  UpstreamEvent event{UpstreamCall::kRelease, address, nbytes};
  pass(event, [&] { to.release(address, nbytes); });
}

void UpstreamDecorator::map(std::byte* address, std::size_t nbytes) {
  ExpandableUpstream& to = expandable(UpstreamCall::kMap);
  UpstreamEvent event{UpstreamCall::kMap, address, nbytes};
  pass(event, [&] { to.map(address, nbytes); });
}

void UpstreamDecorator::unmap(std::byte* address, std::size_t nbytes) {
  ExpandableUpstream& to = expandable(UpstreamCall::kUnmap);
  UpstreamEvent event{UpstreamCall::kUnmap, address, nbytes};
  pass(event, [&] { to.unmap(address, nbytes); });
}

void UpstreamDecorator::move(std::byte* from, std::byte* to_address, std::size_t nbytes) {
  ExpandableUpstream& to = expandable(UpstreamCall::kMove);
  UpstreamEvent event{UpstreamCall::kMove, to_address, nbytes, from};
  pass(event, [&] { to.move(from, to_address, nbytes); });
}

LimitUpstream::LimitUpstream(std::shared_ptr<Upstream> inner, std::size_t nbytes)
    : UpstreamDecorator(std::move(inner)), limit_(nbytes) {}

std::size_t LimitUpstream::capacity_nbytes() const { return std::min(limit_, inner()->capacity_nbytes()); }

void LimitUpstream::before(const UpstreamEvent& event) {
  if (!event.takes()) return;
  std::size_t held = held_.load(std::memory_order_relaxed);
  do {
    TESSERA_CHECK_AS(OutOfMemory, event.nbytes <= limit_ - held, event.call, ": ", format_bytes(event.nbytes),
                     " exceed the limit of ", name(), ": ", format_bytes(limit_), ", ", format_bytes(held), " in use");
  } while (!held_.compare_exchange_weak(held, held + event.nbytes, std::memory_order_relaxed));
}

void LimitUpstream::after(const UpstreamEvent& event) noexcept {
  if (event.gives()) give(event.nbytes);
}

void LimitUpstream::failed(const UpstreamEvent& event) noexcept {
  if (event.takes()) give(event.nbytes);
}

// Memory acquired without this decorator may be released through it: the count stops at 0.
void LimitUpstream::give(std::size_t nbytes) noexcept {
  std::size_t held = held_.load(std::memory_order_relaxed);
  while (!held_.compare_exchange_weak(held, held - std::min(held, nbytes), std::memory_order_relaxed)) {
  }
}

LogUpstream::LogUpstream(std::shared_ptr<Upstream> inner, std::ostream& out)
    : UpstreamDecorator(std::move(inner)), out_(out) {
  out_ << kHeader << '\n';
}

// The lock is held from before a call that releases an address until its line is written: the next owner of the address
// waits for the lock with its own line, so that the log shows one owner at a time.
void LogUpstream::before(const UpstreamEvent& event) {
  if (event.gives() || event.call == UpstreamCall::kMove) mutex_.lock();
}

void LogUpstream::after(const UpstreamEvent& event) noexcept {
  if (event.takes()) {
    const std::lock_guard lock(mutex_);
    write("allocate", event.address, event.nbytes);
  } else if (event.gives() || event.call == UpstreamCall::kMove) {
    const std::lock_guard lock(mutex_, std::adopt_lock);
    write("free", event.gives() ? event.address : event.from, event.nbytes);
    if (!event.gives()) write("allocate", event.address, event.nbytes);
  }
}

void LogUpstream::failed(const UpstreamEvent& event) noexcept {
  if (event.gives()) {
    mutex_.unlock();
    return;
  }
  if (event.call != UpstreamCall::kMove) mutex_.lock();
  const std::lock_guard lock(mutex_, std::adopt_lock);
  if (event.call != UpstreamCall::kRelease) write("allocate failure", nullptr, event.nbytes);
}

void LogUpstream::write(std::string_view action, const std::byte* pointer, std::size_t nbytes) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char line[160];
  const int length = std::snprintf(line, sizeof line, "%ld,%02d:%02d:%02d:%06ld,%.*s,0x%" PRIxPTR ",%zu,0x0\n",
                                   static_cast<long>(::syscall(SYS_gettid)), local.tm_hour, local.tm_min, local.tm_sec,
                                   now.tv_nsec / 1000, static_cast<int>(action.size()), action.data(),
                                   reinterpret_cast<std::uintptr_t>(pointer), nbytes);
  try {
    out_.write(line, length);
  } catch (...) {  // a stream that throws has lost the line, and its state shows it
  }
}

StatisticsUpstream::StatisticsUpstream(std::shared_ptr<Upstream> inner)
    : UpstreamDecorator(std::move(inner)), scopes_(1) {}

UpstreamCounters StatisticsUpstream::counters() const {
  const std::lock_guard lock(mutex_);
  return scopes_.back();
}

UpstreamCounters StatisticsUpstream::push() {
  const std::lock_guard lock(mutex_);
  const UpstreamCounters before = scopes_.back();
  scopes_.emplace_back();
  return before;
}

UpstreamCounters StatisticsUpstream::pop() {
  const std::lock_guard lock(mutex_);
  TESSERA_CHECK(scopes_.size() > 1, "pop: the outermost scope of the statistics cannot be closed");
  const UpstreamCounters scope = scopes_.back();
  scopes_.pop_back();
  fold(scopes_.back().bytes, scope.bytes);
  fold(scopes_.back().pieces, scope.pieces);
  return scope;
}

std::uint64_t StatisticsUpstream::unknown_frees() const {
  const std::lock_guard lock(mutex_);
  return unknown_frees_;
}

// Released memory is removed before the call: after the call another thread may get the same address.
void StatisticsUpstream::before(const UpstreamEvent& event) {
  const bool is_move = event.call == UpstreamCall::kMove;
  if (!event.gives() && !is_move) return;
  const std::lock_guard lock(mutex_);
  const auto at = live_.find(is_move ? event.from : event.address);
  if (at == live_.end()) return;
  const std::size_t nbytes = at->second;
  leaving_.emplace(std::this_thread::get_id(), nbytes);
  live_.erase(at);
  if (is_move) return;
  add(scopes_.back().bytes, -static_cast<std::int64_t>(nbytes));
  add(scopes_.back().pieces, -1);
}

void StatisticsUpstream::after(const UpstreamEvent& event) noexcept {
  const std::lock_guard lock(mutex_);
  if (event.takes()) {
    live_[event.address] = event.nbytes;
    add(scopes_.back().bytes, static_cast<std::int64_t>(event.nbytes));
    add(scopes_.back().pieces, 1);
    return;
  }
  const auto left = leaving_.extract(std::this_thread::get_id());
  if (event.call == UpstreamCall::kMove && !left.empty()) live_[event.address] = left.mapped();
  if (event.gives() && left.empty()) ++unknown_frees_;
}

void StatisticsUpstream::failed(const UpstreamEvent& event) noexcept {
  const std::lock_guard lock(mutex_);
  const auto left = leaving_.extract(std::this_thread::get_id());
  if (left.empty()) return;
  const bool is_move = event.call == UpstreamCall::kMove;
  live_[is_move ? event.from : event.address] = left.mapped();
  if (is_move) return;
  scopes_.back().bytes.value += static_cast<std::int64_t>(left.mapped());
  ++scopes_.back().pieces.value;
}

void FailUpstream::fail_at(std::uint64_t k, ErrorKind kind) {
  const std::lock_guard lock(mutex_);
  remaining_ = k;
  kind_ = kind;
}

std::uint64_t FailUpstream::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

void FailUpstream::before(const UpstreamEvent& event) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  if (remaining_ == 0 || --remaining_ > 0) return;
  throw_asked_for(kind_, calls_, event.call);
}

DelayUpstream::DelayUpstream(std::shared_ptr<Upstream> inner, std::chrono::nanoseconds delay)
    : UpstreamDecorator(std::move(inner)), delay_(delay) {}

void DelayUpstream::before(const UpstreamEvent& /*event*/) { std::this_thread::sleep_for(delay_); }

}  // namespace tessera::memory::testing
