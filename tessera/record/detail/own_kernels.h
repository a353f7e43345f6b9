// Which of a rank's kernels are those of its groups' launches: a launch is told twice, by its group and by the stream
// that it was put on, and is drawn once.
#pragma once

#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/record/detail/timed_records.h"
#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// For each kernel of the file whether a launch of one of the rank's groups put it on its stream: it has the name of
/// the launch's operation, and comes behind it there as the next that was put there.
std::vector<bool> own_kernels(const Rank& rank, const probe::RecordFile& file, const std::vector<TimedKernel>& kernels);

}  // namespace tessera::record::detail
