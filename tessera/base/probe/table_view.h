// Reads only the state tables of a record file: a sixth of the bytes and no
// records, so that a running job can be polled every second.
#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/base/probe/reader.h"

namespace tessera::probe {

/// Opens a record file like RecordFile::open(), without records and rings.
TESSERA_API RecordFile open_record_tables(const std::string& path);

}  // namespace tessera::probe
