// The page of a run: one HTML file that holds all it shows, opens from disk and asks nothing of a network.
//
//   run directory                      what the page makes of it
//   loss.csv, metrics.jsonl            curves of loss and speed, memory by owner
//   summary.json                       how it ended, peaks as measured and as planned, the mesh
//   rank-N....record, launch.json      the timeline, the table of collectives, the verdict of explain()
//
// What is not there is told on the page, with the reason, and the rest is shown: of a run that goes on the page shows
// what it has done so far. Nothing of a run directory is trusted. Text of a run gets into the page as data alone
// (docs/report.md says how).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::record {

/// How much the page holds.
struct ReportOptions {
  /// Events of the timeline, at most. Where there are more the oldest are left out of the closest view; from afar all
  /// are drawn.
  std::size_t most_events = 1'200'000;
};

/// A page.
struct ReportPage {
  std::string html = {};                  ///< the file
  std::string data = {};                  ///< the numbers in it, as JSON; the timeline's events are not in here
  std::size_t events = 0;                 ///< of the timeline
  std::vector<std::string> missing = {};  ///< what it could not show and why, a sentence each
};

/// Makes the page of a run directory. IoError: there is no such directory, or nothing in it that a run leaves behind.
TESSERA_API ReportPage make_report_page(const std::string& directory, const ReportOptions& options = {});

/// Makes the page and writes it to `path`, as a whole; empty: DIRECTORY/report.html. Gives the path. IoError.
TESSERA_API std::string write_report_page(const std::string& directory, const std::string& path = {},
                                          const ReportOptions& options = {});

/// For whoever ends a run: writes DIRECTORY/report.html and gives the line that says so, or that says why there is
/// none. Never throws.
TESSERA_API std::string leave_report_page(const std::string& directory) noexcept;

}  // namespace tessera::record
