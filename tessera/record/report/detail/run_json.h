// What the tables of a run (run_tables.h) give the page: curves, memory by owner, the mesh and who owns what in it, and
// the numbers at its head. Long runs are merged to as many points as a screen can show, and the page says how many
// steps a point stands for.
#pragma once

#include <string>

#include "tessera/record/evidence.h"
#include "tessera/record/report/detail/run_tables.h"

namespace tessera::record::detail {

/// Loss, gradient norm, learning rate, speed and exposed time over steps; held-out losses as points.
PageJson curves_json(const RunTables& tables);
/// Bytes by owner over steps, by rank; peaks as measured and as planned.
PageJson memory_json(const RunTables& tables);
/// Axes, and of each rank its place, state and what it owns. `evidence` is null where there are no records.
PageJson mesh_json(const RunTables& tables, const Evidence* evidence);
/// Name, state, and the numbers of the summary.
PageJson head_json(const std::string& directory, const RunTables& tables, const Evidence* evidence);

}  // namespace tessera::record::detail
