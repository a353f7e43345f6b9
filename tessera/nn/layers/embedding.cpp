#include "tessera/nn/layers/embedding.h"

#include "tessera/base/error.h"
#include "tessera/ops/index/index.h"

namespace tessera::nn {

Embedding::Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options) {
  TESSERA_CHECK(count > 0 && width > 0, "Embedding: count and width must be at least 1, got ", count, " and ", width);
  weight = parameter("weight", {count, width}, {.init = options.init, .meaning = options.meaning, .decays = false});
}

Tensor Embedding::forward(const Tensor& index) const { return ops::embedding(weight, index); }

}  // namespace tessera::nn
