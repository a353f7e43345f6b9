// What a rank's record says about launches (base/probe): each of them, when a stream takes it, in a ring of its own.
// Inside a ProfileWindow also when they ran: on the host by its clock, elsewhere by pairs of the device's events, which
// are read when the stream is synchronized, or 64 launches later.
//
//   launch       what was put on which stream        ring
//   launch_end   it has run                          ring; inside a window
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

/// A launch that has run; or, on the host, a wait for another stream that is over.
struct LaunchEndRecord {
  std::uint64_t number;    ///< as in LaunchRecord; 0: it was a wait
  std::uint32_t stream;    ///< likewise
  probe::StringId device;  ///< likewise
  probe::Moment when;      ///< what the rest is counted from
  std::int64_t begun_ns;   ///< it began to run; the same as ended_ns: that is not known
  std::int64_t ended_ns;   ///< it ended
  TESSERA_RECORD(LaunchEndRecord, "launch_end", number, stream, device, when, begun_ns, ended_ns)
};

static_assert(probe::holds_ids_only<LaunchRecord>() && probe::holds_ids_only<LaunchEndRecord>());

/// Whether launches are recorded outside of windows too, in all of the process. On until told otherwise: a launch takes
/// some 20 ns more by it. Thread-safe.
TESSERA_API void record_launches(bool is_on);

/// While one is open, in all of the process, it is recorded when launches ran. Each launch becomes up to three pieces
/// of work. Thread-safe; windows nest.
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
