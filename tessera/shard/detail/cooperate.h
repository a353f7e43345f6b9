// Runs the phases of a cooperative operator (tensor/cooperation.h) on the ranks that cut its factors: the statistics of
// a phase are all-reduced in one launch over one group, whatever the number of axes that cut, so that a reduction is
// one fold of fixed order and its results are the same on all of them.
#pragma once

#include <span>
#include <vector>

#include "tessera/shard/detail/entry.h"
#include "tessera/tensor/call.h"

namespace tessera::shard::detail {

/// This rank's part of every output. Refused where communication is forbidden.
std::vector<Tensor> cooperate(const tensor::Call& global, const tensor::Call& local, const Entry& entry,
                              std::span<const layout::LocalOperand> inputs);

}  // namespace tessera::shard::detail
