// Floating-point operations of a model, computed from its sizes by two conventions. Both count only matrix products,
// with a multiplication and an addition as two operations. Backward counts twice as much as forward. Recomputation by
// activation checkpointing and the embedding lookup do not count. The conventions differ in attention:
//
//   full     every query meets every key of its sequence: 4 x sequence x width per token and layer, forward
//   causal   half of that: a query meets only the keys before it
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Operations per training token, forward and backward, over all ranks.
struct Flops {
  double causal = 0;  ///< Attention counts half.
  double full = 0;    ///< Attention counts fully.
};
/// Returns the operations per token of a resolved model.
TESSERA_API Flops flops_per_token(const ModelConfig& model);

/// Returns the number of parameter elements of a resolved model.
TESSERA_API std::int64_t parameter_count(const ModelConfig& model);

}  // namespace tessera::train
