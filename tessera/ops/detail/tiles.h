// Runs a kernel over the elements of a call, in its compute type. A kernel receives only contiguous runs of that type.
// Contiguous elements of that type are passed in place; others are converted one tile at a time. Numbers of the call
// fill a tile once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/export.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Computes `n` elements of each result. Operands are the results, which are written, then the inputs, which are read.
/// All are contiguous and of one compute type; a result may also be an input. Each element depends only on the values
/// at its index, not on the bounds of the run.
using TileKernel = void (*)(void* const* operands, std::int64_t n);

/// An argument of a tile kernel: a tensor or one number of the compute type.
struct TileInput {
  const Tensor* tensor = nullptr;       ///< null: the argument is a number
  alignas(8) std::byte number[8] = {};  ///< bits of the number

  /// Creates an argument from a tensor, broadcast to the result.
  static TileInput of(const Tensor& tensor) { return {&tensor}; }
  /// Creates an argument from a number.
  static TESSERA_API TileInput of(const Scalar& number, Compute compute);
};

/// Maximum number of elements of a tile.
inline constexpr std::int64_t kTile = 256;
/// Elements of a chunk that a thread takes.
inline constexpr std::int64_t kPiece = 32768;

/// Enqueues `kernel` over all elements of the results of the call, which have one shape and any dtype. At most six
/// results and inputs together.
TESSERA_API void launch_tiles(const tensor::KernelCall& call, Compute compute, TileKernel kernel,
                              std::span<const TileInput> inputs);

}  // namespace tessera::ops::detail
