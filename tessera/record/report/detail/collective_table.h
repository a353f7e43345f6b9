// The collectives of a run as a table, a row for each group, operation and dtype:
//
//   nbytes         what one rank puts in or gets, the larger; summed over launches, not over ranks
//   bus bandwidth  the bytes that the slowest link must carry over the time from when all had come until the last had
//                  ended: of an all_reduce 2 (n-1)/n of its bytes, of gathers, scatters and exchanges (n-1)/n
//   skew           from the first rank that came to the last; where all ranks of the group are known
//   exposed        over ranks, from coming to ending, less what kernels of the rank ran meanwhile where those were
//                  recorded; the launch of a collective is no kernel (spans.h)
#pragma once

#include "tessera/record/evidence.h"
#include "tessera/record/report/detail/run_tables.h"
#include "tessera/record/report/detail/spans.h"

namespace tessera::record::detail {

/// The rows, those with the most exposed time first.
PageJson collectives_json(const Evidence& evidence, const Spans& spans);

}  // namespace tessera::record::detail
