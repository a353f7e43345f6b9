// The collectives of a run as a table, one row per group, operation and dtype:
//
//   nbytes         input or output of one rank, whichever is larger; summed over launches, not over ranks
//   bus bandwidth  bytes of the slowest link divided by the time from the arrival of all to the last end: 2 (n-1)/n of
//                  the bytes for an all_reduce, (n-1)/n for gathers, scatters and exchanges
//   skew           from the first arrival to the last; if all ranks of the group are known
//   exposed        over ranks, from arrival to end, minus recorded kernels of the rank in that time; the launch of a
//                  collective is not a kernel (spans.h)
#pragma once

#include "tessera/analysis/evidence.h"
#include "tessera/analysis/report/detail/run_tables.h"
#include "tessera/analysis/report/detail/spans.h"

namespace tessera::analysis::detail {

/// Returns the rows, by descending exposed time.
PageJson collectives_json(const Evidence& evidence, const Spans& spans);

}  // namespace tessera::analysis::detail
