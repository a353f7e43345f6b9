// The text of `tessera train --dry-run`: whether a run fits into the memory of this host, and its predicted memory,
// operations, communication and time per step (predict.h). Nothing runs.
#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Returns the text for a run of `world_size` ranks, with `ranks` of them on this host. Throws what resolved() throws.
TESSERA_API std::string dry_run_text(const Config& config, int world_size, int ranks);

/// Returns the number of ranks of the mesh of a configuration; mesh.dp counts as 1 if it is unset.
TESSERA_API int mesh_size(const Config& config);

}  // namespace tessera::train
