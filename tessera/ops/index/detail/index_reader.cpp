#include "tessera/ops/index/detail/index_reader.h"

namespace tessera::ops::detail {

tensor::Cost moved_cost(const tensor::Call& call) {
  tensor::Cost cost;
  for (const tensor::OutputInfo& info : tensor::infer(call)) {
    cost.nbytes += 2 * static_cast<double>(info.shape.numel()) * static_cast<double>(itemsize(info.dtype));
  }
  return cost;
}

void IndexReader::refuse(std::int64_t index) const {
  TESSERA_THROW(InvalidArgument, op, ": index must be in [0, ", size, ") along dimension ", dim, ", got ", index);
}

}  // namespace tessera::ops::detail
