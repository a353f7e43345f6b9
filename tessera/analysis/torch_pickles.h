// Reads pickles of the PyTorch flight recorder, version 2.x, into Evidence. There is one file per rank, named by a
// prefix and the rank. Also writes such files, which the analyzer of PyTorch loads.
#pragma once

#include <string>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"

namespace tessera::analysis {

/// Returns true if the directory holds such pickles and no Tessera record file.
TESSERA_API bool has_torch_pickles(const std::string& directory);
/// Reads the pickles. Invalid files and other versions yield a line in Evidence::problems. Throws IoError if no file is
/// readable.
TESSERA_API Evidence read_torch_pickles(const std::string& directory);

/// Writes one file of version 2.10 per rank, named PREFIX0, PREFIX1, ... Returns the paths. Throws IoError.
TESSERA_API std::vector<std::string> write_torch_pickles(const Evidence& evidence, const std::string& directory,
                                                         const std::string& prefix = "comm_lib_trace_rank_",
                                                         FileKind kind = FileKind::kUser);

}  // namespace tessera::analysis
