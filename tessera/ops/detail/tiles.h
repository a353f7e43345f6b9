// Runs a kernel over the elements of a call, in the type that it computes in. A kernel sees only dense stretches of
// that type: elements that lie so are handed to it where they are, all others are converted a tile at a time, and
// numbers given with the call are tiles filled once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/export.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::detail {

/// Computes `n` elements of each result: the results come first among the operands and are written, the others are
/// read; all are dense, of one compute type, and a result may be one of those read. Each element depends on the values
/// at its index alone, not on where a stretch begins or ends.
using TileKernel = void (*)(void* const* operands, std::int64_t n);

/// An argument of a tile kernel: a tensor, or one number of the compute type.
struct TileInput {
  const Tensor* tensor = nullptr;       ///< null: a number
  alignas(8) std::byte number[8] = {};  ///< its bits

  /// A tensor, broadcast to the result.
  static TileInput of(const Tensor& tensor) { return {&tensor}; }
  /// A number.
  static TESSERA_API TileInput of(const Scalar& number, Compute compute);
};

/// The most elements of a tile.
inline constexpr std::int64_t kTile = 256;
/// Elements of a piece that a thread takes.
inline constexpr std::int64_t kPiece = 32768;

/// Enqueues `kernel` over all elements of the call's results, which have one shape and may be of any dtype. Results and
/// inputs together are at most six.
TESSERA_API void launch_tiles(const tensor::KernelCall& call, Compute compute, TileKernel kernel,
                              std::span<const TileInput> inputs);

}  // namespace tessera::ops::detail
