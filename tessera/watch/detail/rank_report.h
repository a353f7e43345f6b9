// A report with the message of the rank that requested it. If the records do not show the fault, for example if a group
// was never created, the message is the verdict.
#pragma once

#include <string>

#include "tessera/analysis/evidence.h"
#include "tessera/watch/verdict_file.h"

namespace tessera::watch::detail {

/// Same as watch::make_report(), with this message as "told" in explain.json and at the end of explain.txt.
Report make_report(const std::string& run_dir, const std::string& words);

/// A report and the text of explain.txt.
struct RankReport {
  Report report = {};     ///< Summary to print.
  std::string text = {};  ///< Text of explain.txt.
};
/// Creates a report of this evidence and writes it to this directory, unless it is empty.
RankReport make_report(const analysis::Evidence& evidence, const std::string& run_dir, const std::string& words);
/// Writes a report that another rank created, which does not see this directory; `where` is the path of the original.
void write_received_report(const std::string& run_dir, const RankReport& told, const std::string& where);

}  // namespace tessera::watch::detail
