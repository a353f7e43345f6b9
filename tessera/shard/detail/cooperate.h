// Runs the phases of a cooperative operator (tensor/cooperation.h) on the ranks that shard its factors. One launch over
// one group all-reduces the statistics of a phase, for any number of axes. Each reduction is deterministic, so its
// results are equal on all ranks.
#pragma once

#include <span>
#include <vector>

#include "tessera/shard/detail/dispatch_plan.h"
#include "tessera/tensor/call.h"

namespace tessera::shard::detail {

/// Returns the shards of this rank of every output. Throws if communication is forbidden.
std::vector<Tensor> cooperate(const tensor::Call& global, const tensor::Call& local, const DispatchPlan& entry,
                              std::span<const layout::LocalOperand> inputs);

}  // namespace tessera::shard::detail
