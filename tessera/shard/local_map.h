// Runs a function of plain tensors on the local shards of tensors with layouts, for kernels without a factor rule.
//
//   const auto norm = shard::local_map(
//       [&](const std::vector<Tensor>& parts) -> std::vector<Tensor> {
//         const Tensor squares = shard::all_reduce(ops::sum(ops::square(parts[0])), {mesh, "tp"});   // collectives.h
//         return {ops::div(parts[0], ops::sqrt(squares))};
//       },
//       {columns}, {columns});
//   const Tensor y = norm({x}, {{x.shape(), x.dtype()}})[0];
//
// Inputs must have the declared layouts. Inside an AutoRedistribute scope, other layouts are redistributed. The caller
// guarantees the results: replicated results are equal on all ranks, and partial ones reduce to the global tensor.
//
// The map is differentiable as often as the function is. Backward needs no declaration. Along each axis:
//
//   input        its gradient                   result       gradient that the function receives
//   sharded      sharded in the same way        sharded      the shard
//   partial      replicated                     partial      the global gradient
//   replicated   partial: the sum over ranks    replicated   the global gradient on the first rank, zeros elsewhere (or
//                                                            the partial gradient as it is)
//
// This is correct for any collectives inside the function. Along an axis on which all inputs and results are replicated
// and the function does not communicate, all ranks compute the same, and gradients keep their placement, global or
// partial.
#pragma once

#include <functional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/op_def.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Computes results from the shards of this rank, all plain tensors. Every rank of the mesh calls it.
using LocalFn = std::function<std::vector<Tensor>(const std::vector<Tensor>& parts)>;

/// Options of local_map().
struct LocalMapOptions {
  /// Layout of the gradient of each input, as the function returns it. An empty layout, or an empty vector, selects the
  /// table above.
  std::vector<layout::Layout> gradients = {};
};

/// Function returned by local_map(). A value type. Several threads may call it.
class TESSERA_API LocalMap {
 public:
  /// Constructs the function; see local_map().
  LocalMap(LocalFn fn, std::vector<layout::Layout> in_layouts, std::vector<layout::Layout> out_layouts,
           LocalMapOptions options);
  /// Calls the function on the shards of `inputs`. `outputs` holds the global shape and dtype of each result. By
  /// default, shards along sharded dimensions are measured by communication that waits for the stream. Ranks outside
  /// the mesh do not call the function and must be given `outputs`.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 const std::vector<tensor::OutputInfo>& outputs = {}) const;

 private:
  LocalFn fn_;
  std::vector<layout::Layout> in_;
  std::vector<layout::Layout> out_;
  LocalMapOptions options_;
  layout::Mesh mesh_;
};

/// Wraps `fn` as a function of tensors with these layouts, all on one mesh. An empty layout denotes a plain or empty
/// tensor, which is passed unchanged. Its gradient is separate on each rank.
TESSERA_API LocalMap local_map(LocalFn fn, std::vector<layout::Layout> in_layouts,
                               std::vector<layout::Layout> out_layouts, LocalMapOptions options = {});

}  // namespace tessera::shard
