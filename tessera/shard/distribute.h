// Conversions between plain tensors and tensors with layouts.
//
//   Tensor x = shard::distribute(batch, layout, DataOn::kFirstRank);
//   Tensor mine = shard::local(x);          // shares memory
#pragma once

#include <optional>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Location of the data that distribute() reads.
enum class DataOn : std::uint8_t {
  kFirstRank,  ///< On the first rank of the mesh, which sends it. Other ranks pass a tensor of the same shape and
               ///< dtype, not read.
  kEveryRank,  ///< On all ranks. Each keeps its shard, and nothing is sent.
};
/// Returns the global tensor `whole` sharded by `layout`, in separate memory; `whole` itself if the layout is empty, so
/// that a program runs unchanged without a mesh. Differentiable: every rank of the mesh
/// receives the gradient of the global tensor, so either all ranks request it or none does.
TESSERA_API Tensor distribute(const Tensor& whole, const layout::Layout& layout, DataOn where);

/// Facts about the shards that from_local() receives.
struct FromLocalOptions {
  std::optional<Shape> shape = {};  ///< Global shape. By default it is computed from the shards, by communication.
  bool check = false;               ///< Ranks compare shape, dtype and layout, and the bytes of replicas.
  std::optional<DType> dtype = {};  ///< Required on ranks outside the mesh, which have no shard.
};
/// Returns the global tensor whose shard on this rank is `local`. Both share memory. Ranks outside the mesh pass an
/// empty tensor, and must give shape and dtype. Differentiable: the gradient of the shard is that of the global tensor
/// at the dual layout, divided by the number of shards for Partial(avg). Throws for Partial(min), Partial(max) and
/// Partial(prod) if a gradient is required.
TESSERA_API Tensor from_local(const Tensor& local, const layout::Layout& layout, const FromLocalOptions& options = {});
/// Returns the shard of this rank as a plain tensor that shares memory. Differentiable: `gradient` is the layout of the
/// gradient. By default it is the dual of the layout of `x`: sharded stays sharded, partial becomes replicated.
TESSERA_API Tensor local(const Tensor& x, const std::optional<layout::Layout>& gradient = {});
/// Gathers the global tensor as a plain tensor on every rank of the mesh. Returns an empty tensor on other ranks, and a
/// plain `x` unchanged. Differentiable: every rank passes the gradient of the global tensor.
TESSERA_API Tensor gather(const Tensor& x);
/// Returns a replicated tensor on `mesh` that shares the memory of `plain`. Nothing is sent, and the values must
/// already be equal on all ranks, which is not checked. Differentiable, as from_local().
TESSERA_API Tensor replicate(const Tensor& plain, const layout::Mesh& mesh);

}  // namespace tessera::shard
