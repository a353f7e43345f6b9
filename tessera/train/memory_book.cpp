#include "tessera/train/memory_book.h"

#include <algorithm>

#include "tessera/autograd/autograd.h"
#include "tessera/nn/distribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train {
namespace {

std::int64_t nbytes_of(const Tensor& tensor) { return tensor ? static_cast<std::int64_t>(tensor.local().nbytes()) : 0; }

}  // namespace

MemoryBook::MemoryBook(const nn::Module& model, const nn::Optimizer& optimizer)
    : model_(model), optimizer_(&optimizer), allocator_(memory::Allocator::of(tensor::default_device())) {
  note();
}

std::vector<OwnedBytes> MemoryBook::now() const {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  for (const Tensor& leaf : model_.parameters()) {
    parameters += nbytes_of(leaf);
    gradients += nbytes_of(autograd::grad(leaf));
  }
  if (gradients == 0) gradients = graph_gradients_;
  const std::int64_t optimizer = optimizer_->nbytes();
  const std::int64_t gathered = nn::gathered_bytes(model_).now;
  const auto live = static_cast<std::int64_t>(allocator_.statistics().now.live_nbytes) + graph_idle_;
  const std::int64_t others = live - parameters - gradients - optimizer - gathered;
  return {{"parameters", parameters},
          {"gradients", gradients},
          {"optimizer", optimizer},
          {"gathered", gathered},
          {"activations", std::max<std::int64_t>(0, others)},
          {"total", live}};
}

void MemoryBook::note_graph(const memory::Pool& pool, std::span<const Tensor> gradients) {
  graph_gradients_ = 0;
  graph_idle_ = 0;
  for (const Tensor& gradient : gradients) graph_gradients_ += nbytes_of(gradient);
  if (!pool) return;
  const memory::Totals held = pool.snapshot().totals();
  graph_idle_ = static_cast<std::int64_t>(held.reserved_nbytes - held.live_nbytes);
  note();
}

void MemoryBook::note() {
  const std::vector<OwnedBytes> found = now();
  if (max_.empty()) max_ = found;
  for (std::size_t i = 0; i < found.size(); ++i) max_[i].nbytes = std::max(max_[i].nbytes, found[i].nbytes);
}

std::vector<OwnedBytes> MemoryBook::peak() const {
  std::vector<OwnedBytes> out = max_;
  for (OwnedBytes& each : out) {
    if (each.owner == "gathered") each.nbytes = nn::gathered_bytes(model_).peak;
    const auto max_live = static_cast<std::int64_t>(allocator_.statistics().peak_live_nbytes);
    if (each.owner == "total") each.nbytes = std::max(graph_idle_ == 0 ? 0 : each.nbytes, max_live);
  }
  return out;
}

}  // namespace tessera::train
