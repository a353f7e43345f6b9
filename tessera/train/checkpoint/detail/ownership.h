// The owner of each shard: a pure function of the tensors, their layouts and the number of ranks, so that writers and
// readers agree without communication.
//
// One of the ranks that hold a shard writes it. Tensors of one layout are assigned, the largest first, to the holder
// with the fewest bytes so far. The shards in the file of a rank are contiguous, larger elements first, otherwise in
// the order of the tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/ids.h"
#include "tessera/base/shape.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/layout.h"

namespace tessera::train::detail {

/// A tensor of a checkpoint.
struct SavedTensor {
  std::string name;  ///< Unique name.
  DType dtype = DType::kF32;
  Shape shape = {};            ///< Global shape.
  layout::Layout layout = {};  ///< Empty: plain, complete on every rank.
};

/// Consecutive indices of one dimension, global and local.
struct IndexRun {
  std::int64_t global = 0;  ///< First index in the tensor.
  std::int64_t local = 0;   ///< First index in the shard.
  std::int64_t size = 0;    ///< Number of indices.
};

/// Shard of a rank: the product of the runs of its dimensions.
struct OwnedShard {
  Shape shape = {};                              ///< Shape of the shard.
  std::vector<std::vector<IndexRun>> dims = {};  ///< Runs per dimension, ascending.

  /// Returns "[0:2+4:6, 0:8]".
  [[nodiscard]] std::string text() const;
};

/// Returns the shard of `rank`, which may be empty.
OwnedShard part_of(const layout::Layout& layout, const Shape& shape, Rank rank);
/// Returns the runs of an index map.
std::vector<IndexRun> runs_of(const layout::IndexMap& map);
/// Returns the ranks that hold the element at `index`; all ranks for a plain tensor.
layout::RankSet holders(const SavedTensor& tensor, std::span<const std::int64_t> index, int world_size);

/// A shard in the file of the rank that writes it.
struct FileShard {
  std::size_t tensor = 0;    ///< Index of the tensor.
  std::uint64_t offset = 0;  ///< First byte, from the end of the header.
  std::uint64_t nbytes = 0;  ///< At least 1: empty shards are not written.
};

/// Assignment of shards to ranks. Immutable; safe to share between threads.
class Ownership {
 public:
  /// The tensors must have passed check_tensors() and must outlive this object.
  Ownership(const std::vector<SavedTensor>& tensors, int world_size);

  /// Returns the shards that a rank writes, in file order.
  [[nodiscard]] std::vector<FileShard> pieces_of(Rank rank) const;
  /// Returns the index, among the holders of a shard, of the one that writes it.
  [[nodiscard]] std::int64_t place_of(std::size_t tensor) const { return places_[tensor]; }
  /// Returns the kind of a tensor. Tensors of equal layout and shape have the same kind.
  [[nodiscard]] std::size_t kind_of(std::size_t tensor) const { return kinds_[tensor]; }
  /// Returns one tensor of each kind.
  [[nodiscard]] const std::vector<std::size_t>& first_of_kind() const { return first_of_kind_; }

 private:
  const std::vector<SavedTensor>* tensors_;  // not owned
  int world_size_;
  std::vector<std::size_t> kinds_;
  std::vector<std::size_t> first_of_kind_;
  std::vector<std::int64_t> places_;
  std::vector<std::size_t> file_order_;
};

/// Throws InvalidArgument with the tensor unless `world_size` ranks can save all of them: names are unique, sizes fit,
/// the layout fits the shape and the ranks and has no partial axes, and files support the dtype.
void check_tensors(const std::vector<SavedTensor>& tensors, int world_size);

}  // namespace tessera::train::detail
