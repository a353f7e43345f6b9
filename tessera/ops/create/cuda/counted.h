// Arguments of the kernel in counted.cu, shared by host and device.
#pragma once

#include "tessera/base/dtype.h"
#include "tessera/ops/create/cuda/places.h"
#include "tessera/ops/detail/integer_draws.h"

namespace tessera::ops::cuda {

/// Kind of the value of an element, computed from its global index.
enum class CountKind : std::uint8_t {
  kIntegers,     // start + index * step
  kFloating,     // fma(index, step, start)
  kDiagonal,     // 1 if row and column of the index are equal
  kDraws,        // a random integer
  kPermutation,  // a random permutation
};

/// A fill of a tensor from the global indices of its elements.
struct CountedFill {
  void* to = nullptr;
  DType dtype = DType::kI64;
  CountKind kind = CountKind::kIntegers;
  bool is_dense = false;     // contiguous and not sharded: `places` is not used
  bool has_vectors = false;  // dense, and four elements can be stored in one access
  std::int64_t numel = 0;
  std::int64_t start = 0, step = 1;
  double floating_start = 0, floating_step = 1;
  std::int64_t row = 1;  // distance of adjacent rows in global indices
  std::uint64_t seed = 0, call = 0;
  const std::int64_t* counter = nullptr;  // in device memory, added to the call; may be null
  detail::IntegerRange range;
  detail::Permutation permutation;  // the kernel draws its keys
  DrawPlaces places;
};

}  // namespace tessera::ops::cuda
