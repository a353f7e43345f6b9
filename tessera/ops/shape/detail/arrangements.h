// The copies of rectangles that rearranging operators consist of, computed from shapes and attributes at the call. All
// devices make the same copies.
#pragma once

#include <vector>

#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Returns the copies that make up the complete result. Copies of no elements are left out.
std::vector<ElementsCopy> cat_copies(const tensor::KernelCall& call);
std::vector<ElementsCopy> flip_copies(const tensor::KernelCall& call);
std::vector<ElementsCopy> roll_copies(const tensor::KernelCall& call);
/// Returns the copy of the input. All other elements of the result have one value.
ElementsCopy pad_copy(const tensor::KernelCall& call);
ElementsCopy unslice_copy(const tensor::KernelCall& call);

}  // namespace tessera::ops::detail
