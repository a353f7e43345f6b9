// A micro-batch as input of the model, from rows of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tensor/tensor.h"
#include "tessera/train/plan.h"

namespace tessera::train::detail {

/// Input tokens and target tokens of the model.
struct Batch {
  Tensor tokens;
  Tensor targets;
};

/// Returns the rows of this rank, [rows, sequence], as a shard of the global batch.
Tensor laid_out(const Tensor& own, const ParallelPlan& plan, bool is_batch_sharded = true);
/// Returns these values, in separate memory, as a shard of the global batch.
Tensor laid_out(std::vector<std::int32_t> values, std::int64_t rows, const ParallelPlan& plan,
                bool is_batch_sharded = true);
/// Splits rows of sequence + 1 tokens into tokens and targets. Targets of rows from `real` on are ignored.
void split_rows(std::span<const std::int32_t> rows, const ParallelPlan& plan, std::int64_t real,
                std::span<std::int32_t> tokens, std::span<std::int32_t> targets);
/// Creates a batch from rows of sequence + 1 tokens. Targets of rows from `real` on are ignored.
Batch batch_of(std::span<const std::int32_t> rows, const ParallelPlan& plan, std::int64_t real);

}  // namespace tessera::train::detail
