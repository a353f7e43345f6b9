// Generated evidence for tests of writers: two ranks, two groups, every stage, a point-to-point operation, a coalesced
// launch, a replay, annotations, an out-of-memory error, odd text.
#pragma once

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::testing {

/// Start of the run: 2023-11-14 22:13:20 UTC.
inline constexpr std::int64_t kStart = 1'700'000'000'000'000'000;

/// Returns a launch of one operation with these times of enqueue, start, arrival and end in microseconds after kStart;
/// 0: not reached.
CollectiveCall launch_of(RecordedOperation operation, std::uint64_t collective_number, std::int64_t asked_us,
                         std::int64_t begun_us, std::int64_t met_us, std::int64_t ended_us);
/// Returns the evidence.
Evidence small_evidence();

}  // namespace tessera::analysis::testing
