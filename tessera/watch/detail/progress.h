// The state of a group as its record shows it: the standing of the group, and the text of its last operation.
#pragma once

#include <string>

#include "tessera/comm/group_observer.h"
#include "tessera/watch/watchdog.h"

namespace tessera::watch::detail {

/// Returns the state of the group.
GroupPhase standing_of(const comm::detail::GroupProgress& progress);
/// Returns the last started operation, as "all_reduce(f32[8], sum)". Returns "" if none has started.
std::string text_of(const comm::detail::GroupProgress& progress);

}  // namespace tessera::watch::detail
