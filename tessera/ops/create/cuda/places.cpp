#include "tessera/ops/create/cuda/places.h"

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::cuda {

DrawPlaces places_of(const tensor::Tensor& out, const Shape& global, const std::vector<layout::IndexMap>& index,
                     const char* op) {
  TESSERA_CHECK_AS(NotSupported, out.ndim() <= DrawPlaces::kMaxDims, op,
                   ": a tensor that is not contiguous must have at most ", DrawPlaces::kMaxDims,
                   " dimensions on cuda, got ", out.ndim());
  DrawPlaces places;
  places.ndim = out.ndim();
  places.is_part = !index.empty();
  for (int d = 0; d < places.ndim; ++d) {
    const auto at = static_cast<std::size_t>(d);
    places.sizes[d] = out.shape()[at];
    places.steps[d] = out.strides()[at];
    if (!places.is_part) continue;
    places.global_sizes[d] = global[at];
    places.maps[d] = device_map(index[at], op);
  }
  return places;
}

}  // namespace tessera::ops::cuda
