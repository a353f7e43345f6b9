// Source and destination indices of the operators that only rearrange elements, for the shard layer.
#pragma once

#include "tessera/tensor/call.h"
#include "tessera/tensor/rearrangement.h"

namespace tessera::ops::detail {

tensor::Rearrangement cat_rearrangement(const tensor::Call& call);
tensor::Rearrangement flip_rearrangement(const tensor::Call& call);
tensor::Rearrangement roll_rearrangement(const tensor::Call& call);
tensor::Rearrangement pad_rearrangement(const tensor::Call& call);
tensor::Rearrangement unslice_rearrangement(const tensor::Call& call);
tensor::Rearrangement slice_rearrangement(const tensor::Call& call);

}  // namespace tessera::ops::detail
