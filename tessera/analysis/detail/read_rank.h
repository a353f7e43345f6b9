// Reads the state of a rank besides its groups: open annotations, the last launch of each stream, its memory, and its
// last activity.
#pragma once

#include <string>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {

/// Returns the last group creations, the oldest first.
std::vector<GroupCreation> read_group_creations(const probe::RecordFile& file, std::vector<std::string>& problems);
/// Returns the open annotations, by thread, from the outermost to the innermost.
std::vector<OpenAnnotation> read_marks(const probe::RecordFile& file, std::vector<std::string>& problems);
/// Returns the last launch of each stream that is still in the ring, the latest first.
std::vector<LastKernel> read_last_launches(const probe::RecordFile& file);
/// Returns the memory of each device.
std::vector<DeviceMemory> read_memory(const probe::RecordFile& file, std::vector<std::string>& problems);
/// Returns the time of the oldest remaining record of launches and annotations; 0 if none exists.
std::int64_t first_launch_ns(const probe::RecordFile& file);
/// Returns the time of its last record; 0 if it has none.
std::int64_t last_record_ns(const probe::RecordFile& file);

}  // namespace tessera::analysis::detail
