#include "tessera/device/stream.h"

#include <array>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/device/backend.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/detail/stream_checks.h"

namespace tessera::device {

using detail::stream_state;

namespace {

// Runs one enqueueing call under the stream's lock, then lets the backend run work that may run here.
template <class Call>
void enqueue(StreamState& stream, DriverCall kind, const Call& call) {
  if (detail::is_launch_noted()) (void)probe::recorder();  // created here if necessary, not under the lock
  {
    const std::lock_guard lock(stream.mutex);
    stream.device->faults.pass(kind);
    call();
  }
  stream.backend->drain();
}

// The steps of each launch around the driver call, under the stream's lock. In a capture nothing is checked yet: the
// complete graph is checked when the capture ends. Nothing runs either, so the ticks of the stream stay unchanged.
template <class Call>
void launch_with(StreamState& stream, const LaunchInfo& info, const Call& call) {
  const std::uint64_t before = stream.slot->tick().value();
  detail::AccessChecker* checker = stream.device->checker.get();
  const bool is_eager = !stream.is_capturing();
  if (checker != nullptr) [[unlikely]] {
    TESSERA_CHECK(info.accesses.has_value(), "launch '", info.label, "' on ", stream.name,
                  " must declare its accesses; pass LaunchInfo::accesses, or an empty list if it accesses no memory");
    if (is_eager) {
      checker->launch(stream, info.label, *info.accesses);
    } else {
      checker->touch(info.label, *info.accesses);
    }
  }
  if (!is_eager) {
    // Without a checker, the accesses that a capture copies would not be read.
    call(checker != nullptr ? info : LaunchInfo{.label = info.label});
    return;
  }
  const bool is_noted = detail::is_launch_noted();
  if (is_noted) stream.log.note(stream, info.label);
  const bool is_timed = is_noted && ProfileWindow::is_open();
  if (is_timed) [[unlikely]]
    stream.log.note_begin(stream);
  call(info);
  if (stream.overlap_depth == 0) stream.before_last_full = before;
  if (is_timed) [[unlikely]]
    stream.log.note_end(stream);
}

// A position of a stream claimed for this thread. It is returned unused if something throws.
class Claimed {
 public:
  Claimed() = default;
  ~Claimed() {
    HostFunction nothing([] {});
    if (backend_ != nullptr) run(nothing);
  }
  Claimed(const Claimed&) = delete;
  Claimed& operator=(const Claimed&) = delete;
  // Called under the stream's lock. Returns true if the position is claimed.
  bool take(StreamBackend& backend) {
    if (backend.claim()) backend_ = &backend;
    return backend_ != nullptr;
  }
  explicit operator bool() const { return backend_ != nullptr; }
  // Called without a lock.
  void run(HostFunction& body) { std::exchange(backend_, nullptr)->run_claimed(body); }

 private:
  StreamBackend* backend_ = nullptr;
};

void check_range(const char* what, const void* address, std::size_t nbytes) {
  TESSERA_CHECK(address != nullptr || nbytes == 0, what, " of ", nbytes, " bytes: address must not be null");
}

void check_word(const char* what, const void* address) {
  TESSERA_CHECK(address != nullptr, what, ": address must not be null");
  TESSERA_CHECK(reinterpret_cast<std::uintptr_t>(address) % sizeof(std::uint64_t) == 0, what, ": address ", address,
                " must be a multiple of 8");
}

}  // namespace

Stream Stream::wrap(const Device& device, void* native, StreamOptions options) {
  TESSERA_CHECK(device.state() != nullptr, "Stream::wrap: Device must not be empty");
  DeviceState& state = *device.state();
  state.owner.check("device");
  if (state.default_stream->backend->native() == native) return device.default_stream();
  {
    const std::lock_guard lock(state.mutex);
    const auto it = state.streams.find(native);
    if (it != state.streams.end()) {
      if (auto known = it->second.lock()) return Stream(std::move(known));
    }
  }
  auto backend = state.backend->wrap_stream(native);
  return Stream(state.add_stream(std::move(backend), std::move(options), false, true));
}

void Stream::launch(const Kernel& kernel, const LaunchConfig& config, const KernelArgs& args,
                    const LaunchInfo& info) const {
  StreamState& stream = stream_state(*this);
  TESSERA_CHECK(static_cast<bool>(kernel), "launch on ", stream.name, ": Kernel must not be empty");
  TESSERA_CHECK(kernel.device().get() == stream.device, "launch on ", stream.name, ": kernel '", kernel.name(),
                "' must be of device ", stream.device->name, ", got ", detail::device_name(kernel));
  for (int i = 0; i < 3; ++i) {
    TESSERA_CHECK(config.grid[i] > 0 && config.block[i] > 0, "launch of '", kernel.name(), "': grid ", config.grid,
                  " and block ", config.block, " must be at least 1 in every dimension");
  }
  LaunchInfo named = info;
  if (named.label.empty()) named.label = kernel.name();
  enqueue(stream, DriverCall::kLaunch, [&] {
    launch_with(stream, named, [&](const LaunchInfo& kept) {
      stream.backend->launch(kernel.backend(), config, args, kept, stream.overlap_depth > 0);
    });
    if (config.spins) stream.may_spin = true;
  });
}

void Stream::launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info,
                           bool loads_code) const {
  StreamState& stream = stream_state(*this);
  TESSERA_CHECK(static_cast<bool>(body), "launch_native on ", stream.name, ": function must not be empty");
  enqueue(stream, DriverCall::kLaunch, [&] {
    launch_with(stream, info, [&](const LaunchInfo& kept) { stream.backend->launch_native(body, kept, loads_code); });
  });
}

void Stream::run(HostFunction body, const LaunchInfo& info) const {
  StreamState& stream = stream_state(*this);
  TESSERA_CHECK(static_cast<bool>(body), "run on ", stream.name, ": function must not be empty");
  const std::shared_ptr<StreamState> keep = state_;  // the body may release the last handle
  Claimed claimed;
  if (detail::is_launch_noted()) (void)probe::recorder();  // see enqueue()
  {
    const std::lock_guard lock(stream.mutex);
    stream.device->faults.pass(DriverCall::kLaunch);
    launch_with(stream, info, [&](const LaunchInfo& kept) {
      if (!claimed.take(*stream.backend)) stream.backend->run(std::move(body), kept, stream.overlap_depth > 0);
    });
  }
  if (claimed) return claimed.run(body);
  stream.backend->drain();
}

bool Stream::try_run(HostFunction& body, const LaunchInfo& info) const {
  StreamState& stream = stream_state(*this);
  Claimed claimed;
  if (detail::is_launch_noted()) (void)probe::recorder();  // see enqueue()
  {
    const std::lock_guard lock(stream.mutex);
    if (stream.device->checker != nullptr || stream.device->faults.is_armed()) return false;
    if (!claimed.take(*stream.backend)) return false;
    launch_with(stream, info, [](const LaunchInfo& /*kept*/) {});
  }
  claimed.run(body);
  return true;
}

void Stream::copy(void* to, const void* from, std::size_t nbytes, std::string_view label) const {
  StreamState& stream = stream_state(*this);
  check_range("copy: target", to, nbytes);
  check_range("copy: source", from, nbytes);
  if (nbytes == 0) return;
  const std::array accesses{reads(from, nbytes), writes(to, nbytes)};
  const LaunchInfo info{.label = label, .accesses = accesses};
  enqueue(stream, DriverCall::kCopy, [&] {
    detail::check_capturable(stream, {to, from});
    launch_with(stream, info, [&](const LaunchInfo& kept) { stream.backend->copy(to, from, nbytes, kept); });
  });
}

void Stream::copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                     std::size_t height, std::string_view label) const {
  StreamState& stream = stream_state(*this);
  check_range("copy_2d: target", to, width * height);
  check_range("copy_2d: source", from, width * height);
  if (width == 0 || height == 0) return;
  TESSERA_CHECK(to_pitch >= width && from_pitch >= width, "copy_2d: pitches must be at least the width, ", width,
                ", got ", to_pitch, " and ", from_pitch);
  const std::array accesses{reads(from, from_pitch * (height - 1) + width),
                            writes(to, to_pitch * (height - 1) + width)};
  const LaunchInfo info{.label = label, .accesses = accesses};
  enqueue(stream, DriverCall::kCopy, [&] {
    detail::check_capturable(stream, {to, from});
    launch_with(stream, info, [&](const LaunchInfo& kept) {
      stream.backend->copy_2d({to, to_pitch, from, from_pitch, width, height}, kept);
    });
  });
}

void Stream::fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
                  std::string_view label) const {
  StreamState& stream = stream_state(*this);
  TESSERA_CHECK(item_nbytes == 1 || item_nbytes == 2 || item_nbytes == 4, "fill: item_nbytes must be 1, 2 or 4, got ",
                item_nbytes);
  check_range("fill: target", to, count * item_nbytes);
  TESSERA_CHECK(reinterpret_cast<std::uintptr_t>(to) % item_nbytes == 0, "fill: address ", to,
                " must be a multiple of ", item_nbytes);
  if (count == 0) return;
  const std::array accesses{writes(to, count * item_nbytes)};
  const LaunchInfo info{.label = label, .accesses = accesses};
  enqueue(stream, DriverCall::kFill, [&] {
    launch_with(stream, info,
                [&](const LaunchInfo& kept) { stream.backend->fill(to, pattern, item_nbytes, count, kept); });
  });
}

void Stream::write_value(std::uint64_t* to, std::uint64_t value) const {
  StreamState& stream = stream_state(*this);
  check_word("write_value", to);
  enqueue(stream, DriverCall::kMemoryValue, [&] {
    if (stream.device->checker != nullptr) stream.device->checker->touch("write_value", std::array{writes(to, 8)});
    stream.backend->write_value(to, value);
  });
}

void Stream::wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare) const {
  StreamState& stream = stream_state(*this);
  check_word("wait_value", from);
  enqueue(stream, DriverCall::kMemoryValue, [&] {
    if (stream.device->checker != nullptr) stream.device->checker->touch("wait_value", std::array{reads(from, 8)});
    stream.backend->wait_value(from, value, compare);
    stream.may_spin = true;
  });
}

Hold Stream::hold(std::chrono::nanoseconds timeout) const {
  StreamState& stream = stream_state(*this);
  TESSERA_CHECK(timeout > std::chrono::nanoseconds::zero(), "hold on ", stream.name, ": the timeout must be positive");
  std::shared_ptr<HoldBackend> hold;
  enqueue(stream, DriverCall::kHold, [&] {
    TESSERA_CHECK(!stream.is_capturing(), "hold on ", stream.name,
                  " in capture: a hold is released once, a graph is replayed many times; capture a wait_value instead");
    hold = stream.backend->hold(timeout);
    stream.may_spin = true;
  });
  return Hold(std::move(hold));
}

void Hold::release() const {
  if (backend_ != nullptr) backend_->release();
}
bool Hold::timed_out() const { return backend_ != nullptr && backend_->timed_out(); }

Tick Stream::stamp() const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  detail::check_not_capturing(stream, "stamp", "call capture_info for its dependencies");
  return stream.take_tick();
}

bool Stream::covers(StreamId other, Tick tick) const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  // A capture orders nodes, not this stream's eager work: no outside work is ordered before a replay.
  return !stream.is_capturing() && stream.covers(other, tick);
}

VectorClock Stream::clock() const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  return stream.clock;
}

Tick Stream::completed() const {
  StreamState& stream = stream_state(*this);
  stream.slot->raise_completed(stream.backend->progress());
  return stream.slot->completed();
}

Tick Stream::poll() const {
  StreamState& stream = stream_state(*this);
  Tick latest;
  {
    const std::lock_guard lock(stream.mutex);
    if (stream.is_capturing()) return completed();
    latest = stream.take_tick();  // covers all earlier stamps: StreamSlot::upcoming
  }
  stream.device->faults.pass(DriverCall::kQuery);
  if (stream.backend->is_idle()) stream.slot->raise_completed(latest);
  return completed();
}

Tick Stream::publish() const {
  StreamState& stream = stream_state(*this);
  Tick tick;
  enqueue(stream, DriverCall::kMemoryValue, [&] {
    detail::check_not_capturing(stream, "publish", "publish after the graph is launched");
    tick = stream.take_tick();
    stream.backend->publish(tick);
  });
  return tick;
}

Stream::OverlapScope::OverlapScope(const Stream& stream) : state_(stream.state_) {
  StreamState& on = stream_state(stream);
  const std::lock_guard lock(on.mutex);
  if (on.overlap_depth++ == 0) on.slot->set_hazard(StreamSlot::kOverlapping, true);
}

Stream::OverlapScope::~OverlapScope() {
  if (!state_->owner.is_this()) return;
  const std::lock_guard lock(state_->mutex);
  if (--state_->overlap_depth == 0) state_->slot->set_hazard(StreamSlot::kOverlapping, false);
}

bool Stream::query() const {
  StreamState& stream = stream_state(*this);
  Tick latest;
  {
    const std::lock_guard lock(stream.mutex);
    detail::check_not_capturing(stream, "query", "end the capture and query the stream that replays the graph");
    latest = stream.take_tick();  // covers all earlier stamps: StreamSlot::upcoming
  }
  stream.device->faults.pass(DriverCall::kQuery);
  if (!stream.backend->is_idle()) return false;
  stream.slot->raise_completed(latest);
  if (auto error = stream.backend->error()) std::rethrow_exception(error);
  stream.device->check_work(false);
  return true;
}

void Stream::synchronize(std::chrono::nanoseconds timeout) const {
  StreamState& stream = stream_state(*this);
  Tick latest;
  {
    const std::lock_guard lock(stream.mutex);
    detail::check_not_capturing(stream, "synchronize", "end the capture and wait on the stream that replays the graph");
    latest = stream.take_tick();  // covers all earlier stamps: StreamSlot::upcoming
  }
  stream.device->faults.pass(DriverCall::kSynchronize);
  TESSERA_CHECK_AS(TimeoutError, stream.backend->synchronize(timeout), stream.name, " of device ", stream.device->name,
                   " still has work after ", timeout, "; the work continues");
  stream.slot->raise_completed(latest);
  {
    const std::lock_guard lock(stream.mutex);
    stream.log.collect(stream);
  }
  if (auto error = stream.backend->error()) std::rethrow_exception(error);
  stream.device->check_work(false);
}

void Stream::reset_error() const {
  StreamState& stream = stream_state(*this);
  const std::lock_guard lock(stream.mutex);
  stream.backend->reset_error();
  stream.device->check_work(true);
}

const StreamSlot& Stream::slot() const { return *stream_state(*this).slot; }
StreamId Stream::id() const { return stream_state(*this).id(); }
const std::string& Stream::name() const { return stream_state(*this).name; }
Device Stream::device() const { return Device(stream_state(*this).device->shared_from_this()); }
bool Stream::may_spin() const { return stream_state(*this).may_spin; }
void* Stream::native() const { return stream_state(*this).backend->native(); }

}  // namespace tessera::device
