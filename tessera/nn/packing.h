// Packed documents: several documents share a row of tokens, and do not see each other.
//
//   nn::set_packing(model, nn::packing_of(tokens, rows, end_of_text));   // tokens of this rank, [rows, sequence]
//   Tensor loss = model.loss(...);                                       // as for each document alone
//   loss.backward();
//   nn::set_packing(model, {});
//
// A document ends with an end-of-text token or with its row. Attention stays within a document, and learned positions
// begin again. Rotary positions need no change: attention depends only on their differences.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/export.h"
#include "tessera/nn/module.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

/// The documents in the rows of this rank. Empty handles: each row is one document.
struct Packing {
  Tensor offsets = {};    ///< i32 [documents + 1]: where documents begin in the concatenated rows of this rank.
  Tensor positions = {};  ///< i32 [rows, sequence]: the position of each token in its document; on a mesh, with layout.
};

/// Returns the documents of rows of tokens, as plain tensors on the host.
TESSERA_API Packing packing_of(std::span<const std::int32_t> tokens, std::int64_t rows, std::int64_t end_of_text);
/// Sets the documents of the next calls of a model, until they are replaced. Backward must precede the replacement.
TESSERA_API void set_packing(const Module& model, Packing packing);
/// Returns the documents of the current call.
TESSERA_API const Packing& packing(const Module& model);

}  // namespace tessera::nn
