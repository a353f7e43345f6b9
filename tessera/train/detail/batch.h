// Micro-batches as input of the model: the rows of this rank, on its device, as shards of the global batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tensor/tensor.h"
#include "tessera/train/plan.h"
#include "tessera/train/task.h"

namespace tessera::train::detail {

/// Returns the rows of this rank, whose first dimension is the sample, as a shard of the global batch on the default
/// device.
Tensor laid_out(const Tensor& own, const ParallelPlan& plan);
/// Returns these values, in separate memory, as a shard [rows, ...] of the global batch.
Tensor laid_out(std::vector<std::int32_t> values, std::int64_t rows, const ParallelPlan& plan);
/// Returns tokens and targets from rows of sequence + 1 tokens. Targets of rows from `real` on are ignored.
Batch batch_of(std::span<const std::int32_t> rows, const ParallelPlan& plan, std::int64_t real);

}  // namespace tessera::train::detail
