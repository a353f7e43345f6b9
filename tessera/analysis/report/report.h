// The HTML report of a run: one self-contained file that opens from disk and needs no network.
//
//   run directory                      content of the report
//   loss.csv, metrics.jsonl            curves, memory by owner, times
//   config.toml                        options and defaults
//   summary.json                       end of the run, measured and planned peaks, the mesh
//   rank-N....record, launch.json      the timeline, the table of collectives, the verdict of explain()
//
// The report lists missing files with reasons and shows the rest. For an active run it shows the progress so far. Files
// of a run directory are not trusted: their text enters the page only as data (docs/report.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::analysis {

/// Limits of a report.
struct ReportOptions {
  /// Maximum number of timeline events. Above it, the oldest events are omitted from the closest view. The distant
  /// views show all.
  std::size_t max_events = 1'200'000;
};

/// An HTML report.
struct ReportPage {
  std::string html = {};                  ///< Contents of the HTML file.
  std::string data = {};                  ///< Values of the report as JSON, without the timeline events.
  std::size_t events = 0;                 ///< Number of timeline events.
  std::vector<std::string> missing = {};  ///< Missing content with reasons, one sentence each.
};

/// Creates the report of a run directory. Throws IoError if the directory does not exist or holds no files of a run.
TESSERA_API ReportPage make_report_page(const std::string& directory, const ReportOptions& options = {});

/// Creates the report and writes it to `path` atomically; by default to DIRECTORY/report.html. Returns the path. Throws
/// IoError.
TESSERA_API std::string write_report_page(const std::string& directory, const std::string& path = {},
                                          const ReportOptions& options = {});

/// Writes DIRECTORY/report.html at the end of a run. Returns a line with the path, or with the reason for a failure.
/// Never throws.
TESSERA_API std::string leave_report_page(const std::string& directory) noexcept;

}  // namespace tessera::analysis
