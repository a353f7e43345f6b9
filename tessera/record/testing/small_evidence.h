// A run made up for tests of what is written from Evidence: two ranks, two groups, every stage, a message, a coalesced
// launch, a replay, marks, memory that ran out, odd text.
#pragma once

#include "tessera/record/evidence.h"

namespace tessera::record::testing {

/// 2023-11-14 22:13:20 UTC.
inline constexpr std::int64_t kStart = 1'700'000'000'000'000'000;

/// A launch of one operation that asked, began, met and ended at these microseconds after kStart; 0: it did not.
Launch launch_of(Operation operation, std::uint64_t ordinal, std::int64_t asked_us, std::int64_t begun_us,
                 std::int64_t met_us, std::int64_t ended_us);
/// The run.
Evidence small_evidence();

}  // namespace tessera::record::testing
