// Describes the location of a rank: its annotations, the last operation it reached, its last kernel.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/analysis/detail/overview.h"
#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// Returns "its host is in annotation step=117, data, for 31 s"; otherwise its last operation or its last kernel. Never
/// empty.
std::string whereabouts(const Overview& overview, const Rank& rank);
/// Returns "step=117, data"; empty if it has no annotations.
std::string text_of_annotations(const Rank& rank);
/// Returns the time of its last activity, from its launches, annotations and kernels; 0 if unknown.
std::int64_t last_activity_ns(const Rank& rank);
/// Returns the label of the last enqueued launch; empty if none.
std::string last_label(const Rank& rank);

}  // namespace tessera::analysis::detail
