// The methods of tensors that concern layouts.
#include "tessera/tensor/methods.h"

#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

Tensor Methods::gather() const { return shard::gather(self()); }
Tensor Methods::redistribute(std::initializer_list<layout::AxisPlacement> to) const {
  return shard::redistribute(self(), to);
}

}  // namespace tessera::tensor
