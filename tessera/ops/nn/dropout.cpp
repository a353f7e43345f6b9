// Dropout is the product of x and a random mask. The mask depends on global indices, so that it shards, captures and
// recomputes as other random operators do. The gradient of the product is the mask again.
#include "tessera/ops/nn/dropout.h"

#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::ops {

Tensor dropout(const Tensor& x, double p, bool is_training, const Tensor& counter) {
  TESSERA_CHECK(p >= 0 && p <= 1, "dropout: p must be in [0, 1], got ", p);
  if (!is_training || p == 0) return x;
  const Tensor kept = bernoulli_like(x, 1 - p, counter);
  return mul(x, p == 1 ? kept : mul(kept, 1 / (1 - p)));
}

}  // namespace tessera::ops
