// Collectives on plain tensors, one on each rank: for functions under local_map and for kernels of one's own.
//
//   Tensor scores = shard::all_gather(part, 0, {mesh, "tp"});
//   Tensor total = shard::all_reduce(ops::sum(x), {mesh, {"dp", "tp"}});
//
// All ranks along the axes ask for the same, in the same order. Each goes to the current stream and is one launch,
// counted and told by traces; inside a ForbidCommunication scope it is refused.
//
// Differentiable, as often as one likes. A gradient is that of the sum over all ranks of what they compute, each rank's
// tensor being a variable of its own; so it is the transpose:
//
//   all_reduce     -> all_reduce         all_to_all -> all_to_all, dimensions exchanged
//   all_gather     -> reduce_scatter     permute    -> permute, the other way round
//   reduce_scatter -> all_gather         broadcast  -> a sum to the root, zeros elsewhere
//
// Ranks meet in backward too: all of them want the gradient, or none does. One rank alone gets its tensor back as it
// is.
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

/// The ranks of a mesh that differ from the current one along some axes alone, the last axis fastest. A value.
class TESSERA_API Along {
 public:
  /// One axis; InvalidArgument names the nearest where there is none such.
  Along(layout::Mesh mesh, std::string_view axis);
  /// Several, major to minor.
  Along(layout::Mesh mesh, std::initializer_list<std::string_view> axes);
  /// Parts of axes, major to minor.
  Along(layout::Mesh mesh, std::vector<layout::SubAxis> axes);

  /// The mesh.
  [[nodiscard]] const layout::Mesh& mesh() const { return mesh_; }
  /// The axes, major to minor.
  [[nodiscard]] std::span<const layout::SubAxis> axes() const { return axes_; }
  /// How many ranks there are.
  [[nodiscard]] int size() const;
  /// The current rank's place among them; InvalidArgument off the mesh.
  [[nodiscard]] int place() const;
  /// "dp and tp".
  [[nodiscard]] std::string text() const;

 private:
  layout::Mesh mesh_;
  std::vector<layout::SubAxis> axes_;
};

/// The reduction of all tensors, which are alike in shape and dtype. Gradients of sums and means alone.
TESSERA_API Tensor all_reduce(const Tensor& x, const Along& over,
                              layout::Reduction reduction = layout::Reduction::kSum);

/// All tensors one behind the other along `dim`. `sizes`: of each rank's there; not given: they are alike.
TESSERA_API Tensor all_gather(const Tensor& x, std::int64_t dim, const Along& over,
                              const std::vector<std::int64_t>& sizes = {});

/// This rank's piece along `dim` of the reduction of all tensors. `sizes`: of the pieces; not given: they are alike.
TESSERA_API Tensor reduce_scatter(const Tensor& x, std::int64_t dim, const Along& over,
                                  const std::vector<std::int64_t>& sizes = {},
                                  layout::Reduction reduction = layout::Reduction::kSum);

/// Sizes of pieces that are not alike, one for each rank.
struct AllToAllSizes {
  std::vector<std::int64_t> split = {};   ///< of what goes to each, along `split_dim`
  std::vector<std::int64_t> concat = {};  ///< of what comes from each, along `concat_dim`
};
/// Each rank cuts its tensor along `split_dim`, sends each rank its piece, and puts what it gets one behind the other
/// along `concat_dim`. Of a tensor that was cut in `concat_dim` it makes one that is cut in `split_dim`; with both the
/// same, rows go wherever `sizes` says.
TESSERA_API Tensor all_to_all(const Tensor& x, std::int64_t split_dim, std::int64_t concat_dim, const Along& over,
                              const AllToAllSizes& sizes = {});

/// The tensor of the rank that sends to this one; zeros where none does. `targets`: the place that each sends to, -1
/// for none, no place twice; the same on all ranks.
TESSERA_API Tensor permute(const Tensor& x, std::span<const int> targets, const Along& over);

/// The tensor of the rank at place `root`; the others give one of the same shape and dtype, not read.
TESSERA_API Tensor broadcast(const Tensor& x, int root, const Along& over);

}  // namespace tessera::shard
