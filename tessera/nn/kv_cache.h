// Keys and values of the tokens that a model has seen, so that generation computes each token once:
//
//   nn::KvCache cache;
//   Tensor logits = model.logits(prompt, &cache);       // [batch, tokens, vocabulary]
//   logits = model.logits(next_token, &cache);          // attends to the prompt, too
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

/// Keys and values per attention module. Not thread-safe.
class TESSERA_API KvCache {
 public:
  /// Returns the number of tokens that this attention has seen.
  [[nodiscard]] std::int64_t tokens(const Module& attention) const;
  /// Returns the number of tokens of all complete passes.
  [[nodiscard]] std::int64_t tokens() const;
  /// Appends keys and values [batch, heads, new tokens, width] and returns those of all tokens.
  std::pair<Tensor, Tensor> append(const Module& attention, const Tensor& keys, const Tensor& values);

 private:
  struct Entry {
    std::shared_ptr<detail::ModuleState> attention;
    Tensor keys;
    Tensor values;
  };
  std::map<const detail::ModuleState*, Entry> entries_;
};

}  // namespace tessera::nn
