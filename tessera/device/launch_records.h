// What a rank's record says about launches (base/probe), where record_launches() or a ProfileWindow asks for it: each
// of them, when a stream takes it, in a ring of its own; and a row a stream with the last of them, which no ring can
// wash away. Inside a ProfileWindow the ends of what the host runs are recorded too.
//
//   launch       what was put on which stream        ring
//   launch_end   it has run                          ring; host streams, inside a window
//   launch_last  the last of each stream             table
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/schema.h"

namespace tessera::device {

/// A kernel, host function, copy, fill or graph that was put on a stream.
struct LaunchRecord {
  probe::StringId label;   ///< as LaunchInfo::label
  std::uint32_t stream;    ///< StreamId
  probe::StringId device;  ///< of the stream
  std::uint32_t graph;     ///< of a graph: number of the executable in this process; else 0
  std::uint64_t number;    ///< among the launches of this stream in this file, from 1
  std::uint64_t tick;      ///< of the stream, before it
  std::uint64_t replay;    ///< of a graph: which launch of the executable, from 1; else 0
  TESSERA_RECORD(LaunchRecord, "launch", label, stream, device, graph, number, tick, replay)
};

/// A launch that has run.
struct LaunchEndRecord {
  std::uint64_t number;    ///< as in LaunchRecord
  std::uint32_t stream;    ///< likewise
  probe::StringId device;  ///< likewise
  TESSERA_RECORD(LaunchEndRecord, "launch_end", number, stream, device)
};

/// The last launch of a stream.
struct LaunchLastRow {
  std::uint64_t count;                         ///< launches of the stream in this file
  probe::Moment when;                          ///< the last was put on the stream; 0: none yet
  std::uint32_t stream;                        ///< StreamId
  probe::StringId device;                      ///< of the stream
  probe::StringId label;                       ///< of the last
  std::uint32_t graph;                         ///< as in LaunchRecord
  std::uint64_t replay;                        ///< likewise
  static constexpr std::uint32_t kRows = 256;  ///< streams at once
  TESSERA_RECORD(LaunchLastRow, "launch_last", count, when, stream, device, label, graph, replay)
};

static_assert(probe::holds_ids_only<LaunchRecord>() && probe::holds_ids_only<LaunchEndRecord>() &&
              probe::holds_ids_only<LaunchLastRow>());

/// Whether launches are recorded outside of windows too, in all of the process. Off until told otherwise: each launch
/// takes some 80 ns more. Thread-safe.
TESSERA_API void record_launches(bool is_on);

/// While one is open, in all of the process, launches are recorded, and the ends of launches on host streams too. Each
/// such launch becomes two pieces of work. Thread-safe; windows nest.
class TESSERA_API ProfileWindow {
 public:
  /// Opens it.
  ProfileWindow();
  /// Closes it.
  ~ProfileWindow();
  ProfileWindow(const ProfileWindow&) = delete;
  ProfileWindow& operator=(const ProfileWindow&) = delete;
  /// Whether any is open.
  static bool is_open();
};

}  // namespace tessera::device
