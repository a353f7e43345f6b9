// What a record file tells of its rank beside its groups: open marks, the last launch of each stream, its memory, and
// when it was last seen to do something.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// The making of groups, the last of them, the oldest first.
std::vector<Making> read_makings(const probe::RecordFile& file, std::vector<std::string>& problems);
/// The marks that are open, by thread and from the outermost to the innermost.
std::vector<Mark> read_marks(const probe::RecordFile& file, std::vector<std::string>& problems);
/// The last launch of each stream that the ring still has, the latest first.
std::vector<LastLaunch> read_last_launches(const probe::RecordFile& file);
/// The memory of each device.
std::vector<Memory> read_memory(const probe::RecordFile& file, std::vector<std::string>& problems);
/// The time of the first record of launches and marks that is left; 0: there is none.
std::int64_t first_launch_ns(const probe::RecordFile& file);
/// The time of its last record; 0: it has none.
std::int64_t last_record_ns(const probe::RecordFile& file);

}  // namespace tessera::record::detail
