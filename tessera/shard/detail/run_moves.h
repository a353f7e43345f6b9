// Carries moves out on tensors, on the current stream. Many tensors go together: each does what it can alone, then
// those whose next operation is of one kind and over one group are one launch, and so on. What is copied is freed when
// the stream is behind it.
#pragma once

#include <memory>
#include <span>

#include "tessera/shard/detail/compiled_move.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::detail {

/// A tensor on its way.
struct TensorMove {
  std::shared_ptr<const CompiledMove> how;
  Tensor part;           ///< this rank's, plain; replaced by the new one
  std::size_t step = 0;  ///< the next one
};

/// To the end of all. Every rank of the mesh has them in the same order. Counts launches and bytes.
void run_moves(std::span<TensorMove> moves);

/// Copies regions between dense tensors.
void copy_regions(const Tensor& to, const Tensor& from, std::span<const RegionCopy> copies);

}  // namespace tessera::shard::detail
