// Evidence as JSON, for programs: keys are the names of the fields in evidence.h, moments are nanoseconds since 1970
// (0: not known), sizes are bytes.
//
//   {"format": "tessera evidence", "version": 1, "source", "world_size", "taken_ns", "problems": [],
//    "ranks": [{"rank", "state", "reason", "signal", "file", "host", "pid", "first_ns", "last_ns", "lost",
//               "makings":  [{"what", "from", "number", "ranks": [], "since_ns", "stage", "failure"}],
//               "marks":    [{"name", "value", "thread", "since_ns", "tid"}],
//               "memory":   [{"device", "live_nbytes", "mapped_nbytes", "refused_nbytes",
//                             "owners": [{"label", "nbytes"}]}],
//               "launches": [{"name", "device", "stream", "when_ns"}],
//               "groups":   [{"name", "backend", "ranks": [], "rank", "asked", "begun", "ended",
//                             "launches": [{"task", "sequence", "ordinal", "stage", "asked_ns", "begun_ns", "met_ns",
//                                           "ended_ns", "failure", "label", "device", "stream", "thread", "replay",
//                                           "node", "is_whole", "operations": [{"kind", "dtype", "count", "reduction",
//                                                                               "root", "peer", "parts"}]}]}]}]}
//
// A rank's state is "running", "stopped", "ended", "failed", "died", "missing" or "unknown"; a stage "asked", "begun",
// "met", "done" or "failed". New keys may be added; those that are there keep their meaning within a version.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"
#include "tessera/record/evidence.h"

namespace tessera::record {

/// Writes it, a launch at a time, a line each. IoError: the stream failed.
TESSERA_API void write_evidence_json(std::ostream& out, const Evidence& evidence);
/// Writes it to a file, as a whole or not at all. IoError.
TESSERA_API void write_evidence_json_file(const std::string& path, const Evidence& evidence,
                                          FileKind kind = FileKind::kUser);

/// The longest text that is read.
inline constexpr std::size_t kMostEvidenceBytes = std::size_t{64} << 20;
/// Reads it back. IoError names what is too large, of another format or version, or of another type than it must be;
/// keys that it does not know are left out.
TESSERA_API Evidence read_evidence_json(std::string_view text);

}  // namespace tessera::record
