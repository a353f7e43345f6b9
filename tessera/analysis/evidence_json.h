// Evidence as JSON, for programs. Keys are the field names of evidence.h, times are nanoseconds since 1970 (0 if
// unknown), and sizes are bytes.
//
//   {"format": "tessera evidence", "version": 1, "source", "world_size", "taken_ns", "problems": [],
//    "ranks": [{"rank", "state", "reason", "signal", "file", "host", "pid", "first_ns", "last_ns", "lost",
//               "makings":  [{"what", "from", "number", "ranks": [], "since_ns", "stage", "failure"}],
//               "marks":    [{"name", "value", "thread", "since_ns", "tid"}],
//               "memory":   [{"device", "live_nbytes", "mapped_nbytes", "refused_nbytes",
//                             "owners": [{"label", "nbytes"}]}],
//               "launches": [{"name", "device", "stream", "when_ns"}],
//               "groups":   [{"name", "backend", "ranks": [], "rank", "asked", "begun", "ended",
//                             "launches": [{"task", "sequence", "collective_number", "stage", "asked_ns", "begun_ns",
//                             "met_ns",
//                                           "ended_ns", "failure", "label", "device", "stream", "thread", "replay",
//                                           "node", "is_whole", "operations": [{"kind", "dtype", "count", "reduction",
//                                                                               "root", "peer", "parts"}]}]}]}]}
//
// The state of a rank is "running", "stopped", "ended", "failed", "died", "missing" or "unknown". A stage is "asked",
// "begun", "met", "done" or "failed". New keys may be added. Existing keys keep their meaning within a version.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

#include "tessera/analysis/evidence.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"

namespace tessera::analysis {

/// Writes the evidence, one launch at a time and one per line. Throws IoError if the stream fails.
TESSERA_API void write_evidence_json(std::ostream& out, const Evidence& evidence);
/// Writes the evidence to a file atomically. Throws IoError.
TESSERA_API void write_evidence_json_file(const std::string& path, const Evidence& evidence,
                                          FileKind kind = FileKind::kUser);

/// Maximum size of a text that is read.
inline constexpr std::size_t kMaxEvidenceBytes = std::size_t{64} << 20;
/// Parses evidence and ignores unknown keys. Throws IoError if the text is too large, has another format or version, or
/// has a value of the wrong type.
TESSERA_API Evidence read_evidence_json(std::string_view text);

}  // namespace tessera::analysis
