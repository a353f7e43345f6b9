// Between plain tensors and tensors with layouts.
#pragma once

#include <optional>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Where the data of a tensor that is distributed is.
enum class DataOn : std::uint8_t {
  kFirstRank,  ///< on the mesh's first rank: it is sent; the others give a tensor of the same shape and dtype, not read
  kEveryRank,  ///< on all: each keeps its part, nothing is sent
};
/// The whole tensor cut as `layout` says, in memory of its own. Differentiable: every rank of the mesh gets the
/// gradient of the whole, so that all ask for it or none does.
TESSERA_API Tensor distribute(const Tensor& whole, const layout::Layout& layout, DataOn where);

/// What is known of parts.
struct FromLocalOptions {
  std::optional<Shape> shape = {};  ///< of the whole; not given: computed from the sizes of all parts, by communication
  bool check = false;               ///< ranks compare shape, dtype and layout, and the bytes of replicas
  std::optional<DType> dtype = {};  ///< needed off the mesh, where there is no part that says it
};
/// The tensor whose part on this rank is `local`, whose memory it shares (no tensor off the mesh, where shape and dtype
/// must be given). Differentiable: the gradient of the part is that of the whole, at the dual layout; where the parts
/// are averaged, divided by their number; where they are a min, max or product, refused.
TESSERA_API Tensor from_local(const Tensor& local, const layout::Layout& layout, const FromLocalOptions& options = {});
/// This rank's part as a plain tensor, sharing memory. Differentiable: the gradient that comes back has the layout
/// `gradient`; not given: the dual of x's (cut stays cut, partial becomes replicated).
TESSERA_API Tensor local(const Tensor& x, const std::optional<layout::Layout>& gradient = {});
/// The whole as a plain tensor, on every rank of the mesh; no tensor off it. Of a plain tensor: itself. Differentiable:
/// every rank gives the gradient of the whole.
TESSERA_API Tensor full(const Tensor& x);
/// A plain tensor that every rank has alike, as a replicated one on `mesh` that shares its memory. Nothing is sent; the
/// caller answers for it. Differentiable, as from_local.
TESSERA_API Tensor replicate(const Tensor& plain, const layout::Mesh& mesh);

}  // namespace tessera::shard
