// A function of plain tensors, run by every rank on its parts of tensors with layouts: for kernels that no operator's
// rule describes.
//
//   const auto norm = shard::local_map(
//       [&](const std::vector<Tensor>& parts) -> std::vector<Tensor> {
//         const Tensor squares = shard::all_reduce(ops::sum(ops::square(parts[0])), {mesh, "tp"});   // collectives.h
//         return {ops::div(parts[0], ops::sqrt(squares))};
//       },
//       {columns}, {columns});
//   const Tensor y = norm({x}, {{x.shape(), x.dtype()}})[0];
//
// Inputs must have the layouts said; inside an AutoRedistribute scope those that have not are moved. The caller answers
// for the results: what is said to be replicated is the same on all ranks, what is said to be partial is reduced to the
// whole.
//
// Differentiable, as often as what the function does is. Backward needs no word of its own: along each axis
//
//   input        its gradient                   result       what the function's gradient is given
//   cut          cut alike                      cut          the part
//   partial      replicated                     partial      the whole
//   replicated   pending: the sum over ranks    replicated   the whole on the first rank, zeros elsewhere (or what is
//                                                            pending, as it is)
//
// which is right whatever collectives the function talks by. Along an axis where every input and result is replicated
// and the function talks over nothing, it does the same on all ranks, and gradients stay what they are there, whole or
// pending.
#pragma once

#include <functional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/op_def.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Results from this rank's parts, all plain. Every rank of the mesh calls it.
using LocalFn = std::function<std::vector<Tensor>(const std::vector<Tensor>& parts)>;

/// How a function is mapped.
struct LocalMapOptions {
  /// For each input the layout that its gradient comes out of the function with, where that is not as the table above
  /// says; an empty one: it is. None at all: all are.
  std::vector<layout::Layout> gradients = {};
};

/// What local_map() makes. A value; may be called by many threads.
class TESSERA_API LocalMap {
 public:
  /// See local_map().
  LocalMap(LocalFn fn, std::vector<layout::Layout> in_layouts, std::vector<layout::Layout> out_layouts,
           LocalMapOptions options);
  /// Calls the function on the parts of `inputs`. `outputs` says shape and dtype of each whole result; not given: parts
  /// along dimensions that are cut are measured, by communication that waits for the stream. Ranks off the mesh do not
  /// call the function and must be given them.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 const std::vector<tensor::OutputInfo>& outputs = {}) const;

 private:
  LocalFn fn_;
  std::vector<layout::Layout> in_;
  std::vector<layout::Layout> out_;
  LocalMapOptions options_;
  layout::Mesh mesh_;
};

/// `fn` as a function of tensors with these layouts, all on one mesh. An empty layout stands for a plain tensor, or
/// none, which is passed as it is; its gradient is each rank's own.
TESSERA_API LocalMap local_map(LocalFn fn, std::vector<layout::Layout> in_layouts,
                               std::vector<layout::Layout> out_layouts, LocalMapOptions options = {});

}  // namespace tessera::shard
