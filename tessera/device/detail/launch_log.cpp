#include "tessera/device/detail/launch_log.h"

#include <array>
#include <atomic>
#include <bit>
#include <memory>

#include "tessera/base/probe/detail/open_recorders.h"
#include "tessera/device/detail/state.h"

namespace tessera::device {

namespace {

std::atomic<int> open_windows{0};
std::atomic<bool> is_always{false};

// Whole words, which the recorder reads: small fields stored one by one just before would keep it waiting.
constexpr std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}
static_assert(offsetof(LaunchRecord, stream) == 4 && offsetof(LaunchRecord, graph) == 12 &&
              offsetof(LaunchRecord, number) == 16 && offsetof(LaunchRecord, replay) == 32);
static_assert(offsetof(LaunchLastRow, when) == 8 && offsetof(LaunchLastRow, stream) == 16 &&
              offsetof(LaunchLastRow, label) == 24 && offsetof(LaunchLastRow, replay) == 32);

}  // namespace

void record_launches(bool is_on) {
  if (is_always.exchange(is_on) != is_on) detail::launch_watchers += is_on ? 1 : -1;
}

ProfileWindow::ProfileWindow() {
  ++detail::launch_watchers;
  open_windows.fetch_add(1, std::memory_order_relaxed);
}
ProfileWindow::~ProfileWindow() {
  open_windows.fetch_sub(1, std::memory_order_relaxed);
  --detail::launch_watchers;
}
bool ProfileWindow::is_open() { return open_windows.load(std::memory_order_relaxed) != 0; }

}  // namespace tessera::device

namespace tessera::device::detail {

std::atomic<int> launch_watchers{0};

void LaunchLog::write(StreamState& stream, probe::Recorder& recorder, probe::Moment now, probe::StringId label,
                      const RunningNode& replay) {
  using Words = std::array<std::uint64_t, 5>;
  const std::uint32_t id = stream.id().value();
  const std::uint64_t number = ++count_;
  recorder.write_at(now, probe::Ring::kLaunch,
                    std::bit_cast<LaunchRecord>(Words{pair(label.value(), id), pair(device_.value(), replay.graph),
                                                      number, stream.slot->tick().value(), replay.replay}));
  row_.put(std::bit_cast<LaunchLastRow>(
      Words{number, now.value(), pair(id, device_.value()), pair(label.value(), replay.graph), replay.replay}));
}

void LaunchLog::enter(StreamState& stream, probe::Recorder& recorder, std::uint64_t id) {
  leave();
  device_ = recorder.intern(stream.device->name);
  row_ = recorder.table<LaunchLastRow>().claim(
      {.count = 0, .when = {}, .stream = stream.id().value(), .device = device_, .label = {}, .graph = 0, .replay = 0});
  recorder_ = id;
}

// The record that the row is in may be gone, and the row with it.
void LaunchLog::leave() noexcept {
  const bool is_open =
      recorder_ != 0 && probe::detail::with_open_recorder(recorder_, [&](probe::Recorder&) { row_.release(); });
  if (!is_open) std::construct_at(&row_);
  recorder_ = 0;
  count_ = 0;
  for (Known& known : known_) known = {};
}

probe::StringId LaunchLog::intern(probe::Recorder& recorder, std::string_view label, Known& known) {
  const probe::StringId id = recorder.intern(label.empty() ? std::string_view("(no label)") : label);
  if (label.size() > sizeof known.text) return id;
  known.nbytes = 255;
  known.id = id;
  if (!label.empty()) std::memcpy(known.text, label.data(), label.size());
  known.nbytes = static_cast<std::uint8_t>(label.size());
  return id;
}

void LaunchLog::note_end(StreamState& stream) {
  if (recorder_ == 0 || stream.device->properties.kind != "host") return;
  const LaunchEndRecord ended{.number = count_, .stream = stream.id().value(), .device = device_};
  stream.backend->run([ended] { probe::record(probe::Ring::kLaunch, ended); }, {.label = "end of a launch"},
                      stream.overlap_depth > 0);
}

}  // namespace tessera::device::detail
