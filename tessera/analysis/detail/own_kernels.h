// Finds the kernels of a rank that belong to group launches: a launch is recorded twice, by its group and by its
// stream, and is drawn once.
#pragma once

#include <vector>

#include "tessera/analysis/detail/timed_records.h"
#include "tessera/analysis/evidence.h"
#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {

/// Returns, for each kernel of the file, whether a group launch of the rank enqueued it: it has the name of the
/// operation of the launch and is the next one enqueued after it on the stream.
std::vector<bool> own_kernels(const Rank& rank, const probe::RecordFile& file, const std::vector<TimedKernel>& kernels);

}  // namespace tessera::analysis::detail
