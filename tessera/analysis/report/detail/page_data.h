// The data of a report, before it becomes a page (page.h): what report.h writes to a file and live_report.h serves.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/report/detail/run_tables.h"
#include "tessera/analysis/report/detail/timeline_pack.h"

namespace tessera::analysis::detail {

/// Data of a report.
struct PageData {
  PageJson json = {};            ///< All values but the timeline events. "live" is null.
  PackedTimeline timeline = {};  ///< Timeline events.
  std::vector<MissingPart> missing = {};
  FileCursor losses_end = {};   ///< End of the lines that were read from loss.csv.
  FileCursor metrics_end = {};  ///< End of the lines that were read from metrics.jsonl.
};

/// Reads the data of a run directory. Throws IoError if the directory does not exist or holds no files of a run.
PageData page_data(const std::string& directory, std::size_t max_events);

/// Returns the verdict of explain() with further findings.
PageJson explanation_json(const Evidence& evidence);

}  // namespace tessera::analysis::detail
