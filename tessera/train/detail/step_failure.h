// Causes of a failed step, as the summary and the error of a run state them: a step without memory with the batch that
// would have fit, and an error of a device with the last launches of its streams.
#pragma once

#include <string>

#include "tessera/base/error.h"
#include "tessera/train/summary.h"

namespace tessera::train::detail {

/// Returns the message of an error that ended a step, with what is known of its cause. The configuration and the size
/// of the world are those of the summary.
std::string failure_reason(const Error& error, const RunSummary& summary);

/// Returns the last launch of each stream of this rank, from its record: "adamw on stream 2 of cuda:0". Empty if the
/// rank has no record.
std::string last_launches();

}  // namespace tessera::train::detail
