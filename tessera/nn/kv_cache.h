// Keys and values of the tokens that a model has seen, so that generation computes each token once:
//
//   nn::KvCache cache;
//   Tensor rows = model.hidden(prompt, &cache);         // [batch, tokens, width]
//   rows = model.hidden(next_token, &cache);            // attends to the prompt, too
//
// Keys and values are in pages of 16 tokens, which sequences of different lengths share. Each attention layer has two
// tensors of pages from the caching allocator, and one table of page numbers per sequence serves all layers. Pages of a
// removed sequence are used again. On a mesh, each rank holds the pages of its heads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

/// Paged keys and values of sequences, per attention module. All ranks of a mesh make equal calls. After an exception
/// of a pass, use a new cache. Not thread-safe.
class TESSERA_API KvCache {
 public:
  /// Tokens of a page.
  static constexpr std::int64_t kPageTokens = 16;

  /// Creates a cache without sequences: the first pass then adds one per row. Pages for `tokens` tokens are allocated
  /// together by the first pass; more are added as needed.
  explicit KvCache(std::int64_t tokens = 0);

  /// Adds an empty sequence and returns its number.
  std::int64_t add_sequence();
  /// Removes a sequence. Throws InvalidArgument if it does not exist or is selected.
  void remove_sequence(std::int64_t sequence);
  /// Selects the sequences that the rows of the next passes continue. Throws InvalidArgument if one does not exist or
  /// occurs twice.
  void select(std::span<const std::int64_t> sequences);
  /// Returns the number of tokens of a sequence in all complete passes.
  [[nodiscard]] std::int64_t tokens(std::int64_t sequence) const;
  /// Returns the largest number of tokens of a selected sequence.
  [[nodiscard]] std::int64_t tokens() const;
  /// Returns the number of pages that sequences use.
  [[nodiscard]] std::int64_t pages_in_use() const;

  /// Returns the position of the next token of each row of a pass. Throws InvalidArgument unless as many sequences are
  /// selected.
  std::vector<std::int64_t> starts(std::int64_t rows);
  /// Returns the position of the next token of each row for one attention module.
  std::vector<std::int64_t> starts(std::int64_t rows, const Module& attention);
  /// Appends keys and values [batch, kv heads, new tokens, width], and returns the causal attention of q [batch, heads,
  /// new tokens, width] to all tokens of its sequence. `window`: number of keys that a query attends to; 0: all.
  Tensor attend(const Module& attention, const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t window);

 private:
  struct Layer {
    std::shared_ptr<detail::ModuleState> attention;
    std::size_t index;
    Tensor keys;
    Tensor values;
  };
  struct Sequence {
    std::vector<std::int64_t> pages;
    std::vector<std::int64_t> tokens;  // by layer
  };
  // Tables and starts of a pass, which layers share.
  struct Pass {
    std::vector<std::int64_t> starts;
    std::int64_t count = 0;
    Tensor tables;
    Tensor first;
  };

  Layer& layer_of(const Module& attention);
  [[nodiscard]] std::int64_t tokens_in(const Sequence& sequence, std::size_t layer) const;
  void take_rows(std::int64_t rows);
  void take_pages(const std::vector<std::int64_t>& starts, std::int64_t count);
  const Pass& pass_of(const std::vector<std::int64_t>& starts, std::int64_t count, const Tensor& like);
  void grow(Tensor& pages, const Tensor& like) const;

  std::map<const detail::ModuleState*, Layer> layers_;
  std::map<std::int64_t, Sequence> sequences_;
  std::vector<std::int64_t> selected_;
  std::vector<std::int64_t> free_pages_;
  std::int64_t capacity_ = 0;  // pages of each layer
  std::int64_t reserved_ = 0;
  std::int64_t next_sequence_ = 0;
  Pass pass_;
};

/// Returns the positions [rows, count] (i64) from these starts on, on the device of `like` and replicated on its mesh.
TESSERA_API Tensor positions_from(std::span<const std::int64_t> starts, std::int64_t count, const Tensor& like);

}  // namespace tessera::nn
