// Executes redistributions on the current stream. Several tensors are processed together: each performs its local
// steps, then tensors whose next operation has the same kind and group share one launch, and so on. Copies are freed in
// stream order.
#pragma once

#include <memory>
#include <span>

#include "tessera/shard/detail/compiled_plan.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::detail {

/// A tensor in redistribution.
struct PlanRun {
  std::shared_ptr<const CompiledPlan> how;
  Tensor part;  ///< Plain shard of this rank; replaced by the new one.
  std::size_t step = 0;
};

/// Completes all redistributions. Every rank of the mesh passes them in the same order. Counts launches and bytes.
void run_plans(std::span<PlanRun> moves);

/// Copies regions between dense tensors.
void copy_regions(const Tensor& to, const Tensor& from, std::span<const RegionCopy> copies);

}  // namespace tessera::shard::detail
