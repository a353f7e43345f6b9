// A report with the words of the rank that asked for it: where the records do not show what went wrong, as when a group
// never came to be, they are the verdict.
#pragma once

#include <string>

#include "tessera/record/evidence.h"
#include "tessera/watch/report.h"

namespace tessera::watch::detail {

/// As watch::make_report(), with these words as "told" in explain.json and at the end of explain.txt.
Report make_report(const std::string& run_dir, const std::string& words);

/// A report, and the whole of what explain.txt says.
struct ToldReport {
  Report report = {};     ///< what to say
  std::string text = {};  ///< explain.txt
};
/// Likewise of this evidence; into this directory, or into none where it is empty.
ToldReport make_report(const record::Evidence& evidence, const std::string& run_dir, const std::string& words);
/// Writes a report that another rank made where this directory is not seen; `where` that one wrote it.
void write_heard_report(const std::string& run_dir, const ToldReport& told, const std::string& where);

}  // namespace tessera::watch::detail
