// Turns the memory records of a rank's record file (history.h) back into Snapshots: of a living process, of one that
// was killed, of a copy. Pure: no device, no allocator.
//
// What is live is read from the last whole keyframe and what follows it. Where the ring has lost too much (no whole
// keyframe and overwritten records), what the remaining records say is shown, and a note says that it is not all.
// Records are never believed: what cannot be is left out and counted in a note, and every Snapshot that comes out is
// consistent (Snapshot::inconsistency() is empty).
#pragma once

#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/probe/reader.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// One Snapshot for each allocator that has records or pools in the file, in the order the allocators were made; empty
/// when there is none. Their traces hold all events that the ring still has. What is not known or was left out is added
/// to `notes`, one line each.
///
/// Not in the records, and so not in these Snapshots: the streams that a pending block waits for, and the policy.
TESSERA_API std::vector<Snapshot> read_history(const probe::RecordFile& file,
                                               std::vector<std::string>* notes = nullptr);

}  // namespace tessera::memory
