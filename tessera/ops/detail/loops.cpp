#include "tessera/ops/detail/loops.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera::ops::detail {
namespace {

struct Dim {
  std::int64_t size;
  std::array<std::int64_t, Loop::kMax> steps;
};

std::int64_t broadcast_step(const Tensor* operand, const Shape& whole, std::size_t dim) {
  if (operand == nullptr) return 0;
  const std::size_t lead = whole.size() - operand->shape().size();
  if (dim < lead || operand->shape()[dim - lead] != whole[dim]) return 0;
  return operand->strides()[dim - lead];
}

}  // namespace

Loop::Loop(std::span<const Tensor* const> operands) : count_(operands.size()), numel_(operands[0]->numel()) {
  TESSERA_CHECK(count_ <= kMax, "a loop must have at most ", kMax, " tensors, got ", count_);
  if (numel_ == 0) return;
  const Shape& whole = operands[0]->shape();
  SmallVector<Dim, 8> dims;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == 1) continue;
    Dim dim{whole[d], {}};
    for (std::size_t o = 0; o < count_; ++o) dim.steps[o] = broadcast_step(operands[o], whole, d);
    if (dim.steps[0] < 0) {
      for (std::size_t o = 0; o < count_; ++o) {
        first_[o] += dim.steps[o] * (dim.size - 1);
        dim.steps[o] = -dim.steps[o];
      }
    }
    // A stable insertion, the largest step first: dimensions are few and mostly in order.
    std::size_t at = dims.size();
    dims.push_back(dim);
    for (; at > 0 && dims[at - 1].steps[0] < dim.steps[0]; --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  for (const Dim& dim : dims) add_dim(dim.size, dim.steps);
}

// Adds a new innermost dimension, or extends the current one.
void Loop::add_dim(std::int64_t size, const std::array<std::int64_t, kMax>& steps) {
  const std::size_t inner = sizes_.size() - 1;
  bool is_merged = !sizes_.empty();
  for (std::size_t o = 0; o < count_ && is_merged; ++o) is_merged = strides_[o][inner] == steps[o] * size;
  if (is_merged) {
    sizes_[inner] *= size;
    for (std::size_t o = 0; o < count_; ++o) strides_[o][inner] = steps[o];
  } else {
    sizes_.push_back(size);
    for (std::size_t o = 0; o < count_; ++o) strides_[o].push_back(steps[o]);
  }
}

bool Loop::is_constant(std::size_t operand) const {
  return std::ranges::all_of(strides_[operand], [](std::int64_t step) { return step == 0; });
}

Loop::Place Loop::place_of(std::int64_t element) const {
  Place place;
  place.offsets = first_;
  if (sizes_.empty()) return place;
  std::size_t d = sizes_.size() - 1;
  place.inner = element % sizes_[d];
  element /= sizes_[d];
  for (std::size_t o = 0; o < count_; ++o) place.offsets[o] += place.inner * strides_[o][d];
  place.index = sizes_;
  while (d-- > 0) {
    const std::int64_t at = element % sizes_[d];
    element /= sizes_[d];
    place.index[d] = at;
    for (std::size_t o = 0; o < count_; ++o) place.offsets[o] += at * strides_[o][d];
  }
  return place;
}

void Loop::next_run(Place& place) const {
  std::size_t d = sizes_.size() - 1;
  for (std::size_t o = 0; o < count_; ++o) place.offsets[o] -= place.inner * strides_[o][d];
  place.inner = 0;
  while (d-- > 0) {
    for (std::size_t o = 0; o < count_; ++o) place.offsets[o] += strides_[o][d];
    if (++place.index[d] < sizes_[d]) return;
    for (std::size_t o = 0; o < count_; ++o) place.offsets[o] -= sizes_[d] * strides_[o][d];
    place.index[d] = 0;
  }
}

}  // namespace tessera::ops::detail
