// A stream's side of the launch ring: the labels that it used lately with their ids in the record of the rank that
// launches on it, so that a launch looks no string up. It belongs to one record at a time; when another rank launches
// on the stream, it moves over.
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

/// Windows that are open, and one more while record_launches() is on.
extern std::atomic<int> launch_watchers;
/// Whether launches are to be noted.
inline bool is_launch_noted() { return launch_watchers.load(std::memory_order_relaxed) != 0; }

/// See the head of this file. Used under the stream's lock.
class LaunchLog {
 public:
  LaunchLog();
  ~LaunchLog();
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;

  /// A launch is put on the stream, for the rank of this thread; a graph says which replay.
  void note(StreamState& stream, std::string_view label, const RunningNode& replay = {});
  /// Inside a profile window, around the driver's call for the launch that was just noted.
  void note_begin(StreamState& stream);
  void note_end(StreamState& stream);
  /// Inside a profile window, when the stream was told to wait for another: on the host, what comes behind begins when
  /// that is over, which nothing else says.
  void note_wait(StreamState& stream);
  /// Records what is known by now of the times of launches on a device that runs them by itself.
  void collect(StreamState& stream) noexcept;

 private:
  // A label and its id in the file.
  struct Known {
    probe::StringId id = {};
    std::uint8_t nbytes = 255;
    char text[43] = {};
  };

  void tell_end(StreamState& stream, std::uint64_t number);
  void enter(StreamState& stream, probe::Recorder& recorder, std::uint64_t id);
  probe::StringId intern(probe::Recorder& recorder, std::string_view label, Known& known);
  // Labels are mostly literals, so that where they lie says where they are kept.
  probe::StringId id_of(probe::Recorder& recorder, std::string_view label) {
    const std::uint64_t spread = reinterpret_cast<std::uintptr_t>(label.data()) * 0x9e3779b97f4a7c15U;
    Known& known = known_[spread >> 60];
    const bool is_known =
        std::string_view(known.text, known.nbytes == 255 ? 0 : known.nbytes) == label && known.nbytes == label.size();
    return is_known ? known.id : intern(recorder, label, known);
  }

  std::uint64_t recorder_ = 0;  // that the rest belongs to; 0: none
  std::uint64_t count_ = 0;
  probe::StringId device_;
  std::unique_ptr<LaunchTimes> times_;  // made by the first launch in a window on a device that is not the host
  Known known_[16];
};

}  // namespace tessera::device::detail
