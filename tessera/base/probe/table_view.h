// Reads the state tables of a record file and leaves its rings alone: a sixth of the bytes and none of the records, so
// that a run may be looked at every second while it goes on.
#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/base/probe/reader.h"

namespace tessera::probe {

/// As RecordFile::open(), without records and rings.
TESSERA_API RecordFile open_record_tables(const std::string& path);

}  // namespace tessera::probe
