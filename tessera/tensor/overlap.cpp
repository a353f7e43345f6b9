#include "tessera/tensor/overlap.h"

#include <cstdlib>
#include <utility>

namespace tessera::tensor::detail {

bool is_same_view(const Tensor& a, const Tensor& b) {
  return a.numel() != 0 && a.address() == b.address() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  const Storage& of_a = a.storage();
  const Storage& of_b = b.storage();
  if (of_a.data() + of_a.nbytes() <= of_b.data() || of_b.data() + of_b.nbytes() <= of_a.data()) return false;
  const auto bytes = [](const Tensor& t) { return static_cast<std::int64_t>(itemsize(t.dtype())); };
  const auto x = view_bounds(a.shape(), a.strides());
  const auto y = view_bounds(b.shape(), b.strides());
  if (!x || !y) return false;
  return a.address() + x->min * bytes(a) < b.address() + (y->max + 1) * bytes(b) &&
         b.address() + y->min * bytes(b) < a.address() + (x->max + 1) * bytes(a);
}

// Returns false only if indices are certainly distinct: every stride, from the smallest up, is longer than the reach of
// all smaller ones. This holds for views of contiguous tensors, except expand().
bool has_repeated_elements(const Tensor& tensor) {
  if (tensor.is_contiguous() || tensor.numel() == 0) return false;
  struct Dim {
    std::int64_t step;
    std::int64_t reach;
  };
  SmallVector<Dim, 8> dims;
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    if (tensor.shape()[i] == 1) continue;
    const std::int64_t step = std::abs(tensor.strides()[i]);
    dims.push_back({step, step * (tensor.shape()[i] - 1)});
  }
  for (std::size_t i = 1; i < dims.size(); ++i) {
    for (std::size_t j = i; j > 0 && dims[j].step < dims[j - 1].step; --j) std::swap(dims[j], dims[j - 1]);
  }
  std::int64_t reach = 0;
  for (const Dim& dim : dims) {
    if (dim.step <= reach) return true;
    reach += dim.reach;
  }
  return false;
}

void NearTensors::sort() {
  ranges_.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    if (!tensor) continue;
    const Storage& storage = tensor.storage();
    ranges_.push_back({storage.data(), storage.data() + storage.nbytes(), nullptr, &tensor});
  }
  std::ranges::sort(ranges_, {}, &IndexRange::begin);
  const std::byte* furthest = nullptr;
  for (IndexRange& range : ranges_) range.furthest = furthest = std::max(furthest, range.end);
}

}  // namespace tessera::tensor::detail
