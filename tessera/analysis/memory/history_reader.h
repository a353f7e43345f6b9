// Converts the memory records of a record file (history.h) to Snapshots. The file may belong to a running or killed
// process, or be a copy. Pure: needs no device and no allocator.
//
// Live blocks are read from the last complete keyframe and the records after it. If the ring has overwritten too much
// (no complete keyframe), the remaining records are shown, with a note that they are incomplete. Records are not
// trusted: impossible ones are omitted and counted in a note, and every Snapshot is consistent
// (Snapshot::inconsistency() is empty).
#pragma once

#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/probe/reader.h"
#include "tessera/memory/snapshot.h"

namespace tessera::analysis {

/// Returns one Snapshot per allocator with records or pools in the file, in the order of their creation; empty if there
/// are none. The traces hold all events that are still in the ring. Unknown and omitted data is added to `notes`, one
/// line each.
///
/// The records, and so these Snapshots, do not contain the policy or the streams that a pending block waits for.
TESSERA_API std::vector<memory::Snapshot> read_history(const probe::RecordFile& file,
                                                       std::vector<std::string>* notes = nullptr);

}  // namespace tessera::analysis
