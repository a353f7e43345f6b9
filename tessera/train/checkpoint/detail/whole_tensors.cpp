#include "tessera/train/checkpoint/detail/whole_tensors.h"

#include "tessera/train/checkpoint/detail/fill.h"
#include "tessera/train/checkpoint/detail/input_file.h"

namespace tessera::train::detail {

WholeTensors::WholeTensors(const CheckpointInfo& from)
    : path_(from.path), index_(load_index(from.path)), planner_(index_) {
  // Bounds later memory and time by the size of existing files.
  const Ownership ownership(index_.tensors, index_.world_size);
  for (int rank = 0; rank < index_.world_size; ++rank) {
    check_file_size(index_, rank, ownership.pieces_of(Rank(rank)));
    const InputFile file(path_, index_, rank);
  }
}

std::span<const std::byte> WholeTensors::read(std::size_t tensor) {
  const SavedTensor& saved = index_.tensors[tensor];
  const ReadPlan plan = planner_.plan({{tensor, {}}}, Rank(0));
  elements_.resize(nbytes(saved.shape, saved.dtype));
  fill(path_, index_, plan, {{elements_.data(), itemsize(saved.dtype)}});
  return elements_;
}

}  // namespace tessera::train::detail
