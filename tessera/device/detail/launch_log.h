// A stream's side of the launch ring: its row in the record of the rank that launches on it, and the labels that it
// used lately with their ids in that file, so that a launch looks no string up. It belongs to one record at a time;
// when another rank launches on the stream, it moves over.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tessera/base/probe/recorder.h"
#include "tessera/device/launch_records.h"
#include "tessera/device/replay.h"

namespace tessera::device {
struct StreamState;
}

namespace tessera::device::detail {

/// Windows that are open, and one more while record_launches() is on.
extern std::atomic<int> launch_watchers;
/// Whether launches are to be noted.
inline bool is_launch_noted() { return launch_watchers.load(std::memory_order_relaxed) != 0; }

/// See the head of this file. Used under the stream's lock.
class LaunchLog {
 public:
  LaunchLog() = default;
  ~LaunchLog() { leave(); }
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;

  /// A launch is put on the stream, for the rank of this thread; a graph says which replay.
  void note(StreamState& stream, std::string_view label, const RunningNode& replay = {}) {
    probe::Recorder& recorder = probe::recorder();
    if (!recorder.is_on()) return;
    const probe::Moment now = recorder.begin();
    const probe::detail::ThreadWriter* writer = probe::detail::last_writer;
    if (writer == nullptr) return;  // the thread is past its end
    if (writer->recorder != recorder_) [[unlikely]]
      enter(stream, recorder, writer->recorder);
    write(stream, recorder, now, id_of(recorder, label), replay);
  }
  /// Inside a profile window: puts a note behind the launch that was just put on a host stream.
  void note_end(StreamState& stream);

 private:
  // A label and its id in the file.
  struct Known {
    probe::StringId id = {};
    std::uint8_t nbytes = 255;
    char text[43] = {};
  };

  void write(StreamState& stream, probe::Recorder& recorder, probe::Moment now, probe::StringId label,
             const RunningNode& replay);
  void enter(StreamState& stream, probe::Recorder& recorder, std::uint64_t id);
  void leave() noexcept;
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
  probe::Row<LaunchLastRow> row_;
  std::uint64_t count_ = 0;
  probe::StringId device_;
  Known known_[16];
};

}  // namespace tessera::device::detail
