// Changes the layout of tensors. The planner finds the cheapest steps (layout/plan.h), the same on all ranks of the
// mesh, and each rank executes its side of them on its shard. All transfers of sharded tensors use this function.
//
//   Tensor w = redistribute(shard, Layout::replicated(mesh), {.remat = true});   // FSDP's gather
//
// Differentiable any number of times: the gradient is redistributed to the dual layout of the source (sharded stays
// sharded, partial becomes replicated), and partial gradients are reduced. If the layout does not change, the tensor
// itself is returned, and so is its gradient. Ranks outside the mesh hold no data and take no part.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/stream.h"
#include "tessera/layout/planner.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Options of redistribute().
struct RedistributeOptions {
  /// Calls that save the result for their gradient keep the source instead. Backward redistributes it again, once per
  /// call. The source must not change until then, otherwise backward throws. A saved view of the result keeps the
  /// result.
  bool remat = false;
  std::optional<DType> forward_dtype = {};  ///< Dtype of the result. The tensor is cast before the transfer.
  std::optional<DType> backward_dtype =
      {};  ///< The gradient is cast to this dtype before the transfer, then to that of the source.
  /// Stream of the steps. It waits for the current stream, and the current stream then waits for it. Default: the
  /// current stream.
  std::optional<device::Stream> stream = {};
};

/// Returns `x`, a tensor with a layout, redistributed to the layout `to` of the same mesh. If `x` is plain and `to` is
/// empty, returns `x`, so that a program runs unchanged without a mesh.
TESSERA_API Tensor redistribute(const Tensor& x, const layout::Layout& to, const RedistributeOptions& options = {});
/// Returns `x` redistributed to these placements on its mesh: redistribute(x, {{"dp", Shard(0)}}). Axes that are not
/// named replicate. Returns a plain `x` unchanged.
TESSERA_API Tensor redistribute(const Tensor& x, std::initializer_list<layout::AxisPlacement> to,
                                const RedistributeOptions& options = {});
/// Redistributes several tensors together; `to` holds one layout per tensor. Steps of one kind over the same group are
/// one launch, also in backward.
TESSERA_API std::vector<Tensor> redistribute(std::span<const Tensor> tensors, std::span<const layout::Layout> to,
                                             const RedistributeOptions& options = {});

/// Returns the planner of this rank, with the current cost model.
TESSERA_API layout::Planner& planner();

}  // namespace tessera::shard
