// A stream's writer for the launch ring. It caches recently used labels with their ids in the record of the launching
// rank, so that a launch needs no string lookup. It belongs to one record at a time, and switches when another rank
// launches on the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "tessera/base/probe/recorder.h"
#include "tessera/device/launch_records.h"
#include "tessera/device/replay.h"

namespace tessera::device {
struct StreamState;
}

namespace tessera::device::detail {

class LaunchTimes;

/// Number of open windows, plus one while record_launches() is on.
extern std::atomic<int> launch_watchers;
/// Returns true if launches are recorded.
inline bool is_launch_noted() { return launch_watchers.load(std::memory_order_relaxed) != 0; }

/// The launch log of one stream. Used under the stream's lock.
class LaunchLog {
 public:
  LaunchLog();
  ~LaunchLog();
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;

  /// Records a launch on the stream, for the rank of this thread; `replay` identifies the replay of a graph.
  void note(StreamState& stream, std::string_view label, const RunningNode& replay = {});
  /// Called inside a profile window, before and after the driver call of the launch that was just noted.
  void note_begin(StreamState& stream);
  void note_end(StreamState& stream);
  /// Called inside a profile window when the stream waits for another. On the host, later work starts when that wait is
  /// over, which no other record shows.
  void note_wait(StreamState& stream);
  /// Records the known times of launches on a device that runs them asynchronously.
  void collect(StreamState& stream) noexcept;

 private:
  // A label and its id in the file.
  struct KnownLabel {
    probe::StringId id = {};
    std::uint8_t nbytes = 255;
    char text[43] = {};
  };

  void tell_end(StreamState& stream, std::uint64_t number);
  void enter(StreamState& stream, probe::Recorder& recorder, std::uint64_t id);
  probe::StringId intern(probe::Recorder& recorder, std::string_view label, KnownLabel& known);
  // Labels are mostly literals, so their address determines their cache slot.
  probe::StringId id_of(probe::Recorder& recorder, std::string_view label) {
    const std::uint64_t spread = reinterpret_cast<std::uintptr_t>(label.data()) * 0x9e3779b97f4a7c15U;
    KnownLabel& known = known_[spread >> 58];
    const bool is_known =
        std::string_view(known.text, known.nbytes == 255 ? 0 : known.nbytes) == label && known.nbytes == label.size();
    return is_known ? known.id : intern(recorder, label, known);
  }

  std::uint64_t recorder_ = 0;  // recorder that the other fields belong to; 0: none
  std::uint64_t count_ = 0;
  probe::StringId device_;
  std::unique_ptr<LaunchTimes> times_;  // created by the first launch in a window on a device other than the host
  KnownLabel known_[64];                // a training step has about 30 labels
};

}  // namespace tessera::device::detail
