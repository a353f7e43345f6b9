#include "tessera/nn/layers/dropout.h"

#include "tessera/base/error.h"
#include "tessera/ops/nn/dropout.h"

namespace tessera::nn {

Dropout::Dropout(double probability) : probability_(probability) {
  TESSERA_CHECK(probability >= 0 && probability < 1, "Dropout: probability must be in [0, 1), got ", probability);
}

Tensor Dropout::forward(const Tensor& x) const { return ops::dropout(x, probability_, is_training()); }

}  // namespace tessera::nn
