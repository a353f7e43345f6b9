// Collectives on plain tensors, one tensor per rank. Functions under local_map and custom kernels use them.
//
//   Tensor scores = shard::all_gather(part, 0, {mesh, "tp"});
//   Tensor total = shard::all_reduce(ops::sum(x), {mesh, {"dp", "tp"}});
//
// All ranks along the axes call the same collectives in the same order. Each call is one launch on the current stream,
// is counted and appears in traces. Inside a ForbidCommunication scope it throws.
//
// The collectives are differentiable any number of times. The gradient is that of the sum over all ranks of their
// results, where the tensor of each rank is a separate variable. It is therefore the transpose:
//
//   all_reduce     -> all_reduce         all_to_all -> all_to_all, dimensions exchanged
//   all_gather     -> reduce_scatter     permute    -> permute in the opposite direction
//   reduce_scatter -> all_gather         broadcast  -> a sum to the root, zeros elsewhere
//
// Ranks also communicate in backward: either all of them request the gradient, or none does. With a single rank, each
// collective returns its input.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Ranks of a mesh that differ from the current rank only along some axes. The last axis varies fastest. A value type.
class TESSERA_API Along {
 public:
  /// One axis. Throws InvalidArgument, with the nearest name, if the mesh has no such axis.
  Along(layout::Mesh mesh, std::string_view axis);
  /// Several axes, major to minor.
  Along(layout::Mesh mesh, std::initializer_list<std::string_view> axes);
  /// Several sub-axes, major to minor.
  Along(layout::Mesh mesh, std::vector<layout::SubAxis> axes);

  /// Returns the mesh.
  [[nodiscard]] const layout::Mesh& mesh() const { return mesh_; }
  /// Returns the sub-axes, major to minor.
  [[nodiscard]] std::span<const layout::SubAxis> axes() const { return axes_; }
  /// Returns the number of ranks along the axes.
  [[nodiscard]] int size() const;
  /// Returns the index of the current rank among these ranks. Throws InvalidArgument if the rank is outside the mesh.
  [[nodiscard]] int place() const;
  /// Returns the axes as text: "dp and tp".
  [[nodiscard]] std::string text() const;

 private:
  layout::Mesh mesh_;
  std::vector<layout::SubAxis> axes_;
};

/// Reduces the tensors of all ranks, which must have equal shape and dtype. Only sum and avg are differentiable.
TESSERA_API Tensor all_reduce(const Tensor& x, const Along& over, Reduction reduction = Reduction::kSum);

/// Concatenates the tensors of all ranks along `dim`. `sizes[r]` is the extent of rank r; by default all are equal.
TESSERA_API Tensor all_gather(const Tensor& x, std::int64_t dim, const Along& over,
                              const std::vector<std::int64_t>& sizes = {});

/// Reduces the tensors of all ranks and returns the chunk of this rank along `dim`. `sizes[r]` is the extent of the
/// chunk of rank r; by default all are equal.
TESSERA_API Tensor reduce_scatter(const Tensor& x, std::int64_t dim, const Along& over,
                                  const std::vector<std::int64_t>& sizes = {}, Reduction reduction = Reduction::kSum);

/// Sizes of unequal chunks, one per rank.
struct AllToAllSizes {
  std::vector<std::int64_t> split = {};   ///< Extent of the chunk sent to each rank, along `split_dim`.
  std::vector<std::int64_t> concat = {};  ///< Extent of the chunk received from each rank, along `concat_dim`.
};
/// Splits the tensor of each rank along `split_dim`, sends chunk r to rank r, and concatenates the received chunks
/// along `concat_dim`. A tensor sharded in `concat_dim` becomes one sharded in `split_dim`. If both dimensions are the
/// same, `sizes` routes the rows.
TESSERA_API Tensor all_to_all(const Tensor& x, std::int64_t split_dim, std::int64_t concat_dim, const Along& over,
                              const AllToAllSizes& sizes = {});

/// Returns the tensor of the rank that sends to this rank, or zeros if no rank does. `targets[r]` is the index that
/// rank r sends to, or -1. Each index appears at most once, and `targets` is equal on all ranks.
TESSERA_API Tensor permute(const Tensor& x, std::span<const int> targets, const Along& over);

/// Returns the tensor of the rank at index `root`. The other ranks pass a tensor of the same shape and dtype, which is
/// not read.
TESSERA_API Tensor broadcast(const Tensor& x, int root, const Along& over);

}  // namespace tessera::shard
