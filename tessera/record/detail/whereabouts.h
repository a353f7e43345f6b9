// Where a rank is, in words: its marks, the last operation it came to, its last kernel.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/record/detail/overview.h"
#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// "its host is in mark step=117, data, since 31 s"; else its last operation, else its last kernel. Never empty.
std::string whereabouts(const Overview& overview, const Rank& rank);
/// "step=117, data"; empty: it has no marks.
std::string text_of_marks(const Rank& rank);
/// When it was last seen to do something, by its launches, marks and kernels; 0: not known.
std::int64_t last_activity_ns(const Rank& rank);
/// Label of the last launch that it asked for; empty: none.
std::string last_label(const Rank& rank);

}  // namespace tessera::record::detail
