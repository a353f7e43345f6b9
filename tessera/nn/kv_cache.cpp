#include "tessera/nn/kv_cache.h"

#include <algorithm>
#include <array>

#include "tessera/ops/shape/arrange.h"

namespace tessera::nn {

std::int64_t KvCache::tokens(const Module& attention) const {
  const auto found = entries_.find(attention.state().get());
  return found == entries_.end() ? 0 : found->second.keys.size(2);
}

std::int64_t KvCache::tokens() const {
  std::int64_t least = 0;
  bool is_first = true;
  for (const auto& [module, entry] : entries_) {
    least = is_first ? entry.keys.size(2) : std::min(least, entry.keys.size(2));
    is_first = false;
  }
  return least;
}

std::pair<Tensor, Tensor> KvCache::append(const Module& attention, const Tensor& keys, const Tensor& values) {
  Entry& entry = entries_[attention.state().get()];
  entry.attention = attention.state();
  entry.keys = entry.keys ? ops::cat(std::array{entry.keys, keys}, 2) : keys;
  entry.values = entry.values ? ops::cat(std::array{entry.values, values}, 2) : values;
  return {entry.keys, entry.values};
}

}  // namespace tessera::nn
