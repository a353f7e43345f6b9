#include "tessera/device/detail/launch_log.h"

#include <cstddef>

#include "tessera/device/detail/launch_times.h"
#include "tessera/device/detail/state.h"

namespace tessera::device {

namespace {

std::atomic<int> open_windows{0};
std::atomic<bool> is_always{true};

constexpr std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}
static_assert(offsetof(LaunchRecord, stream) == 4 && offsetof(LaunchRecord, graph) == 12 &&
              offsetof(LaunchRecord, number) == 16 && offsetof(LaunchRecord, replay) == 32);

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

std::atomic<int> launch_watchers{1};

LaunchLog::LaunchLog() = default;
LaunchLog::~LaunchLog() = default;

void LaunchLog::note(StreamState& stream, std::string_view label, const RunningNode& replay) {
  probe::Recorder& recorder = probe::recorder();
  if (!recorder.is_on()) return;
  const probe::Moment now = recorder.begin();
  const probe::detail::ThreadWriter* writer = probe::detail::last_writer;
  if (writer == nullptr) return;  // the thread is ending
  if (writer->recorder != recorder_) [[unlikely]]
    enter(stream, recorder, writer->recorder);
  recorder.write_words_at<LaunchRecord>(
      now, probe::Ring::kLaunch, pair(id_of(recorder, label).value(), stream.id().value()),
      pair(device_.value(), replay.graph), ++count_, stream.slot->tick().value(), replay.replay);
}

void LaunchLog::enter(StreamState& stream, probe::Recorder& recorder, std::uint64_t id) {
  device_ = recorder.intern(stream.device->name);
  recorder_ = id;
  count_ = 0;
  times_.reset();
  for (KnownLabel& known : known_) known = {};
}

probe::StringId LaunchLog::intern(probe::Recorder& recorder, std::string_view label, KnownLabel& known) {
  const probe::StringId id = recorder.intern(label.empty() ? std::string_view("(no label)") : label);
  if (label.size() > sizeof known.text) return id;
  known.nbytes = 255;
  known.id = id;
  if (!label.empty()) std::memcpy(known.text, label.data(), label.size());
  known.nbytes = static_cast<std::uint8_t>(label.size());
  return id;
}

void LaunchLog::note_begin(StreamState& stream) {
  if (recorder_ == 0 || stream.device->properties.kind == "host") return;
  if (times_ == nullptr) times_ = std::make_unique<LaunchTimes>(device_);
  times_->begin(stream, count_);
}

void LaunchLog::note_end(StreamState& stream) {
  if (recorder_ == 0) return;
  if (times_ != nullptr) return times_->end(stream);
  tell_end(stream, count_);
}

void LaunchLog::note_wait(StreamState& stream) {
  if (recorder_ != 0 && stream.device->properties.kind == "host") tell_end(stream, 0);
}

void LaunchLog::tell_end(StreamState& stream, std::uint64_t number) {
  LaunchEndRecord ended{
      .number = number, .stream = stream.id().value(), .device = device_, .when = {}, .begun_ns = 0, .ended_ns = 0};
  stream.backend->run(
      [ended]() mutable {
        ended.when = probe::recorder().now();
        probe::record(probe::Ring::kLaunch, ended);
      },
      {.label = "end of a launch"}, stream.overlap_depth > 0);
}

void LaunchLog::collect(StreamState& stream) noexcept {
  if (times_ == nullptr) return;
  // Strings and numbers belong to the record that contains the launches.
  (void)probe::recorder().begin();
  const probe::detail::ThreadWriter* writer = probe::detail::last_writer;
  if (writer != nullptr && writer->recorder == recorder_) times_->collect(stream);
}

}  // namespace tessera::device::detail
