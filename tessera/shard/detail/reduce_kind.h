// What a layout calls a reduction, as groups call it.
#pragma once

#include "tessera/comm/reduction.h"
#include "tessera/layout/layout.h"

namespace tessera::shard::detail {

/// The same reduction.
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
