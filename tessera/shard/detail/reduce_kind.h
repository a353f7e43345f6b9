// Conversion of layout reductions to those of process groups.
#pragma once

#include "tessera/comm/reduction.h"
#include "tessera/layout/layout.h"

namespace tessera::shard::detail {

/// Returns the same reduction.
inline comm::ReduceKind reduce_kind(layout::Reduction reduction) {
  switch (reduction) {
    case layout::Reduction::kSum: return comm::ReduceKind::kSum;
    case layout::Reduction::kAvg: return comm::ReduceKind::kAvg;
    case layout::Reduction::kMin: return comm::ReduceKind::kMin;
    case layout::Reduction::kMax: return comm::ReduceKind::kMax;
    case layout::Reduction::kProd: break;
  }
  return comm::ReduceKind::kProd;
}

}  // namespace tessera::shard::detail
