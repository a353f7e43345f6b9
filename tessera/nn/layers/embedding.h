// A table of vectors, selected by index.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/nn/layer.h"

namespace tessera::nn {

/// Options of Embedding.
struct EmbeddingOptions {
  Init init = {};                        ///< Initial values.
  Meaning meaning = {"vocab", "embed"};  ///< Meaning of both dimensions of the table.
};

/// Returns the rows of its table [count, width] at integer indices [...], as [..., width].
class TESSERA_API Embedding : public Layer<Embedding> {
 public:
  /// Creates the table.
  Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options = {});
  /// Selects rows.
  [[nodiscard]] Tensor forward(const Tensor& index) const;

  Parameter weight;  ///< [count, width]
};

}  // namespace tessera::nn
