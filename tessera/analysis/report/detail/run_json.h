// JSON for the page from the tables of a run (run_tables.h): curves, memory by owner, the mesh with its owners, and the
// values in the header. Long runs are merged to as many points as a screen can show, and the page states the steps per
// point.
#pragma once

#include <string>

#include "tessera/analysis/evidence.h"
#include "tessera/analysis/report/detail/run_tables.h"

namespace tessera::analysis::detail {

/// Returns loss, gradient norm, learning rate, speed and exposed time over steps; held-out losses as points.
PageJson curves_json(const RunTables& tables);
/// Returns bytes by owner over steps, by rank; measured and planned peaks.
PageJson memory_json(const RunTables& tables);
/// Returns the axes, and for each rank its position, state and memory. `evidence` is null without records.
PageJson mesh_json(const RunTables& tables, const Evidence* evidence);
/// Returns "running", "unknown" or the end of the run.
std::string state_of_run(const RunTables& tables, const Evidence* evidence);
/// Returns name, state, times, and the values of the summary.
PageJson head_json(const std::string& directory, const RunTables& tables, const Evidence* evidence);

}  // namespace tessera::analysis::detail
