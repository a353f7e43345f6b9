// From one layout to another. The planner finds the cheapest steps (layout/plan.h), all ranks of the mesh the same
// ones; each rank carries out its side of them on its part. This is the one way in which tensors move between ranks.
//
//   Tensor w = redistribute(shard, Layout::replicated(mesh), {.remat = true});   // FSDP's gather
//
// Differentiable, as often as one likes: the gradient, whatever its layout, goes to the source's dual one (cut stays
// cut, partial becomes replicated), settling what is pending there. A tensor that is to stay as it is comes back
// itself, and so does its gradient. Ranks off the mesh hold nothing and enter nothing.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/stream.h"
#include "tessera/layout/planner.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// How a tensor is moved.
struct RedistributeOptions {
  /// Calls that save the result for their gradient keep the source instead, and move it again when backward gets there
  /// (each of them once). The source must not change until then: an error. A view of the result that is saved keeps the
  /// result.
  bool remat = false;
  std::optional<DType> forward_dtype = {};   ///< cast to this before it moves; the result has it
  std::optional<DType> backward_dtype = {};  ///< the gradient is cast to this before it moves, then to the source's
  /// The steps run there: it waits for the current stream, and the current one waits for it at once; none: the current
  /// stream itself.
  std::optional<device::Stream> stream = {};
};

/// `x`, a tensor with a layout, under the layout `to` of the same mesh.
TESSERA_API Tensor redistribute(const Tensor& x, const layout::Layout& to, const RedistributeOptions& options = {});
/// Likewise many tensors at once: steps of one kind over the same group are one launch, in backward too. `to` has one
/// for each.
TESSERA_API std::vector<Tensor> redistribute(std::span<const Tensor> tensors, std::span<const layout::Layout> to,
                                             const RedistributeOptions& options = {});

/// The planner of this rank, with the prices in force.
TESSERA_API layout::Planner& planner();

}  // namespace tessera::shard
