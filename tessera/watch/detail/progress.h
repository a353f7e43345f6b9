// The state of a group as its record shows it: the standing of the group, and the text of its last operation.
#pragma once

#include <string>

#include "tessera/comm/detail/group_record.h"
#include "tessera/watch/watchdog.h"

namespace tessera::watch::detail {

/// Returns what the group is at.
Standing standing_of(const comm::detail::GroupProgress& progress);
/// Returns the last operation that has begun, as "all_reduce(f32[8], sum)". Returns "" if none has begun.
std::string text_of(const comm::detail::GroupProgress& progress);

}  // namespace tessera::watch::detail
