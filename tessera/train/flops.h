// Floating-point operations of a model, counted from its numbers by two conventions. Both count products of matrices
// alone, a multiplication and an addition as two; backward twice as much as forward; nothing that checkpointing
// computes again; no lookup of the embedding. They differ in attention:
//
//   full     every query meets every key of its sequence: 4 x sequence x width a token and layer, forward
//   causal   half of that: a query meets the keys before it
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/train/config.h"

namespace tessera::train {

/// Of one token of training, forward and backward, over all ranks.
struct Flops {
  double causal = 0;  ///< attention counted half
  double full = 0;    ///< attention counted whole
};
/// Of a resolved model.
TESSERA_API Flops flops_per_token(const ModelConfig& model);

/// Numbers that a resolved model has.
TESSERA_API std::int64_t parameter_count(const ModelConfig& model);

}  // namespace tessera::train
