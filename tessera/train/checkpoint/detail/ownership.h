// Who writes what: a pure function of the tensors, their layouts and the number of ranks, so that writers and readers
// agree on it without a word.
//
// A rank's part of a tensor is written by one of the ranks that hold it. Which of them: tensors of one layout go, the
// largest first, to the place among the holders that has the least so far. The parts of a rank lie in its file one
// after the other, larger elements first, otherwise in the order of the tensors.
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
  std::string name;            ///< unique
  DType dtype = DType::kF32;   ///< of its elements
  Shape shape = {};            ///< global
  layout::Layout layout = {};  ///< empty: plain, the whole of it on every rank
};

/// Indices of one dimension that lie behind each other, on all ranks and on one.
struct Run {
  std::int64_t global = 0;  ///< first index of the tensor
  std::int64_t local = 0;   ///< first index of the rank's part
  std::int64_t size = 0;    ///< how many
};

/// What a rank holds of a tensor: the product of the runs of its dimensions.
struct Part {
  Shape shape = {};                         ///< of the part
  std::vector<std::vector<Run>> dims = {};  ///< for each dimension, rising

  /// "[0:2+4:6, 0:8]".
  [[nodiscard]] std::string text() const;
};

/// The part of `rank`, which may be empty.
Part part_of(const layout::Layout& layout, const Shape& shape, Rank rank);
/// The runs of an index map.
std::vector<Run> runs_of(const layout::IndexMap& map);
/// The ranks that hold the element at `index`; a plain tensor is held by all.
layout::RankSet holders(const SavedTensor& tensor, std::span<const std::int64_t> index, int world_size);

/// A part in the file of the rank that writes it.
struct Piece {
  std::size_t tensor = 0;    ///< which
  std::uint64_t offset = 0;  ///< of its first byte, from the end of the header
  std::uint64_t nbytes = 0;  ///< at least 1: empty parts are written by nobody
};

/// See the head of this file. Immutable; safe to share between threads.
class Ownership {
 public:
  /// For tensors that were checked (check_tensors).
  Ownership(const std::vector<SavedTensor>& tensors, int world_size);

  /// What a rank writes, in the order of its file.
  [[nodiscard]] std::vector<Piece> pieces_of(Rank rank) const;
  /// Which of the holders of a part writes it, for this tensor.
  [[nodiscard]] std::int64_t place_of(std::size_t tensor) const { return places_[tensor]; }
  /// Tensors of the same layout and shape have the same number, below kinds().
  [[nodiscard]] std::size_t kind_of(std::size_t tensor) const { return kinds_[tensor]; }
  /// A tensor of each kind.
  [[nodiscard]] const std::vector<std::size_t>& first_of_kind() const { return first_of_kind_; }

 private:
  const std::vector<SavedTensor>* tensors_;  // outlives this
  int world_size_;
  std::vector<std::size_t> kinds_;
  std::vector<std::size_t> first_of_kind_;
  std::vector<std::int64_t> places_;
  std::vector<std::size_t> file_order_;
};

/// InvalidArgument, naming the tensor, unless all of them can be saved by so many ranks: names differ, sizes fit, the
/// layout fits the shape, lies on the ranks and has nothing partial, and the dtype is one that files have.
void check_tensors(const std::vector<SavedTensor>& tensors, int world_size);

}  // namespace tessera::train::detail
