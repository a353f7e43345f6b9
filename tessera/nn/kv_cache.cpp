#include "tessera/nn/kv_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/paged_attention.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/gradients.h"

namespace tessera::nn {
namespace {

std::int64_t pages_for(std::int64_t tokens) { return (tokens + KvCache::kPageTokens - 1) / KvCache::kPageTokens; }

// Returns the values as a plain tensor on a device.
Tensor tensor_of(std::vector<std::int64_t> values, const Shape& shape, const device::Device& device) {
  auto owner = std::make_shared<std::vector<std::int64_t>>(std::move(values));
  const Tensor host = Tensor::wrap(owner->data(), shape, DType::kI64, tensor::host_device(), owner);
  return device == host.device() ? host : ops::to(host, device);
}

// Returns the shard of this rank, which must hold complete rows of some heads.
Tensor local_heads(const Tensor& x, const char* name) {
  if (!x.has_layout()) return x;
  const Tensor settled = shard::settle(x);
  for (const int dim : {0, 2, 3}) {
    TESSERA_CHECK(settled.layout().shardings(dim).empty(), "KvCache: ", name,
                  " must be sharded by heads alone, got layout ", settled.layout().text(),
                  "; use nn::ActivationTableScope with batch and sequence replicated");
  }
  return settled.local();
}

}  // namespace

Tensor positions_from(std::span<const std::int64_t> starts, std::int64_t count, const Tensor& like) {
  std::vector<std::int64_t> all;
  for (const std::int64_t start : starts) {
    for (std::int64_t i = 0; i < count; ++i) all.push_back(start + i);
  }
  const Tensor plain = tensor_of(std::move(all), {std::ssize(starts), count}, like.device());
  return like.has_layout() ? shard::replicate(plain, like.layout().mesh()) : plain;
}

KvCache::KvCache(std::int64_t tokens) : reserved_(pages_for(tokens)) {
  TESSERA_CHECK(tokens >= 0, "KvCache: tokens must be at least 0, got ", tokens);
}

std::int64_t KvCache::add_sequence() {
  sequences_[next_sequence_] = {};
  return next_sequence_++;
}

void KvCache::remove_sequence(std::int64_t sequence) {
  const auto found = sequences_.find(sequence);
  TESSERA_CHECK(found != sequences_.end(), "KvCache: no sequence ", sequence);
  TESSERA_CHECK(std::ranges::find(selected_, sequence) == selected_.end(), "KvCache: sequence ", sequence,
                " is selected; select others first");
  free_pages_.insert(free_pages_.end(), found->second.pages.rbegin(), found->second.pages.rend());
  sequences_.erase(found);
}

void KvCache::select(std::span<const std::int64_t> sequences) {
  for (auto each = sequences.begin(); each != sequences.end(); ++each) {
    TESSERA_CHECK(sequences_.contains(*each), "KvCache: no sequence ", *each);
    TESSERA_CHECK(std::find(sequences.begin(), each, *each) == each, "KvCache: sequence ", *each,
                  " must be selected once");
  }
  selected_.assign(sequences.begin(), sequences.end());
  pass_ = {};
}

std::int64_t KvCache::tokens_in(const Sequence& sequence, std::size_t layer) const {
  return layer < sequence.tokens.size() ? sequence.tokens[layer] : 0;
}

std::int64_t KvCache::tokens(std::int64_t sequence) const {
  const auto found = sequences_.find(sequence);
  TESSERA_CHECK(found != sequences_.end(), "KvCache: no sequence ", sequence);
  if (layers_.empty()) return 0;
  std::int64_t least = tokens_in(found->second, 0);
  for (std::size_t i = 1; i < layers_.size(); ++i) least = std::min(least, tokens_in(found->second, i));
  return least;
}

std::int64_t KvCache::tokens() const {
  std::int64_t most = 0;
  for (const std::int64_t sequence : selected_) most = std::max(most, tokens(sequence));
  return most;
}

std::int64_t KvCache::pages_in_use() const { return capacity_ - std::ssize(free_pages_); }

void KvCache::take_rows(std::int64_t rows) {
  TESSERA_CHECK(rows > 0, "KvCache: a pass must have at least 1 row, got ", rows);
  if (sequences_.empty() && next_sequence_ == 0) {
    for (std::int64_t i = 0; i < rows; ++i) selected_.push_back(add_sequence());
  }
  TESSERA_CHECK(rows == std::ssize(selected_), "KvCache: a pass must have one row per selected sequence (",
                selected_.size(), "), got ", rows);
}

std::vector<std::int64_t> KvCache::starts(std::int64_t rows) {
  take_rows(rows);
  std::vector<std::int64_t> all;
  for (const std::int64_t sequence : selected_) all.push_back(tokens(sequence));
  return all;
}

std::vector<std::int64_t> KvCache::starts(std::int64_t rows, const Module& attention) {
  take_rows(rows);
  const std::size_t layer = layer_of(attention).index;
  std::vector<std::int64_t> all;
  for (const std::int64_t sequence : selected_) all.push_back(tokens_in(sequences_.at(sequence), layer));
  return all;
}

KvCache::Layer& KvCache::layer_of(const Module& attention) {
  const auto found = layers_.find(attention.state().get());
  if (found != layers_.end()) return found->second;
  const std::size_t index = layers_.size();
  return layers_.emplace(attention.state().get(), Layer{attention.state(), index, {}, {}}).first->second;
}

// Gives the selected sequences the pages for `count` more tokens.
void KvCache::take_pages(const std::vector<std::int64_t>& starts, std::int64_t count) {
  for (std::size_t i = 0; i < selected_.size(); ++i) {
    std::vector<std::int64_t>& pages = sequences_.at(selected_[i]).pages;
    while (std::ssize(pages) < pages_for(starts[i] + count)) {
      if (free_pages_.empty()) {
        const std::int64_t more = std::max({std::int64_t{1}, capacity_, reserved_ - capacity_});
        for (std::int64_t page = capacity_ + more; page-- > capacity_;) free_pages_.push_back(page);
        capacity_ += more;
      }
      pages.push_back(free_pages_.back());
      free_pages_.pop_back();
    }
  }
}

const KvCache::Pass& KvCache::pass_of(const std::vector<std::int64_t>& starts, std::int64_t count, const Tensor& like) {
  if (pass_.first && pass_.starts == starts && pass_.count == count) return pass_;
  take_pages(starts, count);
  std::int64_t columns = 1;
  for (const std::int64_t start : starts) columns = std::max(columns, pages_for(start + count));
  std::vector<std::int64_t> tables;
  for (const std::int64_t sequence : selected_) {
    const std::vector<std::int64_t>& pages = sequences_.at(sequence).pages;
    const std::int64_t own = std::min(columns, std::ssize(pages));
    tables.insert(tables.end(), pages.begin(), pages.begin() + own);
    tables.resize(tables.size() + static_cast<std::size_t>(columns - own));
  }
  const std::int64_t rows = std::ssize(starts);
  pass_ = {.starts = starts,
           .count = count,
           .tables = tensor_of(std::move(tables), {rows, columns}, like.device()),
           .first = tensor_of(starts, {rows}, like.device())};
  return pass_;
}

// Gives a layer the pages that the tables refer to. `like`: rows [batch, heads, tokens, width].
void KvCache::grow(Tensor& pages, const Tensor& like) const {
  if (pages && pages.size(0) == capacity_) return;
  const memory::Label label("cache");
  const Tensor grown = ops::empty({capacity_, like.size(1), kPageTokens, like.size(3)},
                                  {.dtype = like.dtype(), .device = like.device()});
  if (pages) ops::copy_(ops::narrow(grown, 0, 0, pages.size(0)), pages);
  pages = grown;
}

Tensor KvCache::attend(const Module& attention, const Tensor& q, const Tensor& k, const Tensor& v,
                       std::int64_t window) {
  const Tensor own_q = local_heads(q, "q");
  const Tensor own_k = local_heads(k, "k");
  const Tensor own_v = local_heads(v, "v");
  const std::int64_t count = own_q.size(2);
  const std::vector<std::int64_t> begin = starts(own_q.size(0), attention);
  Layer& layer = layer_of(attention);
  const Pass& pass = pass_of(begin, count, own_q);
  grow(layer.keys, own_k);
  grow(layer.values, own_v);
  ops::write_pages_(layer.keys, own_k, pass.tables, pass.first);
  ops::write_pages_(layer.values, own_v, pass.tables, pass.first);
  for (std::size_t i = 0; i < selected_.size(); ++i) {
    Sequence& sequence = sequences_.at(selected_[i]);
    sequence.tokens.resize(std::max(sequence.tokens.size(), layer.index + 1));
    sequence.tokens[layer.index] = begin[i] + count;
  }
  const std::int64_t left = window > 0 ? window - 1 : -1;
  const bool is_first = count > 1 && std::ranges::count(begin, 0) == std::ssize(begin);
  Tensor own =
      is_first ? ops::scaled_dot_product_attention(own_q, own_k, own_v, {.is_causal = true, .window_left = left})
               : ops::paged_attention(own_q, layer.keys, layer.values, pass.tables, pass.first, {.window_left = left});
  if (!q.has_layout()) return own;
  return shard::from_local(own, shard::settle(q).layout(),
                           {.shape = Shape{q.size(0), q.size(1), q.size(2), v.size(3)}});
}

}  // namespace tessera::nn
