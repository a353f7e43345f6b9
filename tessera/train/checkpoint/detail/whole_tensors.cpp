#include "tessera/train/checkpoint/detail/whole_tensors.h"

#include "tessera/train/checkpoint/detail/fill.h"

namespace tessera::train::detail {

WholeTensors::WholeTensors(const CheckpointInfo& from)
    : path_(from.path), index_(load_index(from.path)), planner_(index_) {}

std::span<const std::byte> WholeTensors::read(std::size_t tensor) {
  const SavedTensor& saved = index_.tensors[tensor];
  // The plan holds the sizes in the index against the layouts; only then is memory asked for.
  const ReadPlan plan = planner_.plan({{tensor, {}}}, Rank(0));
  elements_.resize(nbytes(saved.shape, saved.dtype));
  fill(path_, index_, plan, {{elements_.data(), itemsize(saved.dtype)}});
  return elements_;
}

}  // namespace tessera::train::detail
