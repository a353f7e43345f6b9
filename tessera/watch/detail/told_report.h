// A report with the words of the rank that asked for it: where the records do not show what went wrong, as when a group
// never came to be, they are the verdict.
#pragma once

#include <string>

#include "tessera/watch/report.h"

namespace tessera::watch::detail {

/// As watch::make_report(), with these words as "told" in explain.json and at the end of explain.txt.
Report make_report(const std::string& run_dir, const std::string& words);

}  // namespace tessera::watch::detail
