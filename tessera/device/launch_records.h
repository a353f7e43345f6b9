// Records of launches (base/probe). Each launch is recorded in a separate ring when it is enqueued. Inside a
// ProfileWindow its run time is recorded too: on the host by its clock, on other devices by pairs of events, which are
// read when the stream is synchronized or 64 launches later.
//
//   launch       work and the stream it was enqueued on   ring
//   launch_end   times at which it ran                    ring; inside a window
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/schema.h"

namespace tessera::device {

/// A kernel, host function, copy, fill or graph enqueued on a stream.
struct LaunchRecord {
  probe::StringId label;   ///< see LaunchInfo::label
  std::uint32_t stream;    ///< StreamId
  probe::StringId device;  ///< device of the stream
  std::uint32_t graph;     ///< number of the executable graph in this process; 0 for other launches
  std::uint64_t number;    ///< number of the launch on this stream in this file, from 1
  std::uint64_t tick;      ///< tick of the stream before the launch
  std::uint64_t replay;    ///< number of the launch of the executable graph, from 1; 0 for other launches
  TESSERA_RECORD(LaunchRecord, "launch", label, stream, device, graph, number, tick, replay)
};

/// The end of a launch or, on the host, of a wait for another stream.
struct LaunchEndRecord {
  std::uint64_t number;    ///< see LaunchRecord; 0 for a wait
  std::uint32_t stream;    ///< see LaunchRecord
  probe::StringId device;  ///< see LaunchRecord
  probe::Moment when;      ///< reference time of the fields below
  std::int64_t begun_ns;   ///< start; equal to ended_ns if unknown
  std::int64_t ended_ns;   ///< end of the run
  TESSERA_RECORD(LaunchEndRecord, "launch_end", number, stream, device, when, begun_ns, ended_ns)
};

static_assert(probe::holds_ids_only<LaunchRecord>() && probe::holds_ids_only<LaunchEndRecord>());

/// Enables or disables recording of launches outside of windows, for the complete process. Enabled by default; costs
/// about 20 ns per launch. Thread-safe.
TESSERA_API void record_launches(bool is_on);

/// While a window is open, run times of launches are recorded in the complete process. Each launch then becomes up to
/// three pieces of work. Thread-safe; windows nest.
class TESSERA_API ProfileWindow {
 public:
  /// Opens the window.
  ProfileWindow();
  /// Closes the window.
  ~ProfileWindow();
  ProfileWindow(const ProfileWindow&) = delete;
  ProfileWindow& operator=(const ProfileWindow&) = delete;
  /// Returns true if any window is open.
  static bool is_open();
};

}  // namespace tessera::device
