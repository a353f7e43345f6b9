// PyTorch's flight recorder: pickles of version 2.x, one a rank, named by a prefix and the rank. Read into Evidence,
// and written from it so that PyTorch's own analyzer loads them.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"
#include "tessera/record/evidence.h"

namespace tessera::record {

/// Whether the directory holds such pickles and no record file of ours.
TESSERA_API bool has_torch_pickles(const std::string& directory);
/// Reads them. A file that is no such pickle, or of another version, is a line of Evidence::problems; IoError when none
/// can be read.
TESSERA_API Evidence read_torch_pickles(const std::string& directory);

/// Writes one a rank into the directory, named PREFIX0, PREFIX1, ...: version 2.10. Gives the files. IoError.
TESSERA_API std::vector<std::string> write_torch_pickles(const Evidence& evidence, const std::string& directory,
                                                         const std::string& prefix = "comm_lib_trace_rank_",
                                                         FileKind kind = FileKind::kUser);

}  // namespace tessera::record
