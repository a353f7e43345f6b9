// A micro-batch as the model is given it, from rows of tokens as samples are read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tensor/tensor.h"
#include "tessera/train/plan.h"

namespace tessera::train::detail {

/// Tokens that the model is given, and those that it is to say.
struct Batch {
  Tensor tokens;
  Tensor targets;
};

/// This rank's rows, [rows, sequence], as a part of the whole batch.
Tensor laid_out(const Tensor& own, const Plan& plan, bool is_batch_cut = true);
/// Likewise, in memory of their own.
Tensor laid_out(std::vector<std::int32_t> values, std::int64_t rows, const Plan& plan, bool is_batch_cut = true);
/// Splits rows of sequence + 1 tokens. Targets of rows from `real` on count for nothing.
void split_rows(std::span<const std::int32_t> rows, const Plan& plan, std::int64_t real, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets);
/// From rows of sequence + 1 tokens, likewise.
Batch batch_of(std::span<const std::int32_t> rows, const Plan& plan, std::int64_t real);

}  // namespace tessera::train::detail
