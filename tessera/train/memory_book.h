// Memory of a rank in bytes by owner. Parameters, gradients, optimizer state and gathered parameters are counted
// exactly. All other memory in use counts as activations: results that backward will read, and temporaries. A replayed
// step holds the memory of its activations permanently.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/pool.h"
#include "tessera/nn/module.h"
#include "tessera/nn/optim/optimizer.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Current and peak memory by owner.
class TESSERA_API MemoryBook {
 public:
  /// `optimizer` must outlive this object.
  MemoryBook(const nn::Module& model, const nn::Optimizer& optimizer);
  /// Updates the peak of each owner. Called at the ends of forward and backward, where owners hold most.
  void note();
  /// Registers a graph that replays steps with its own memory in `pool`. All of that memory, including these gradients,
  /// is in use between steps too. An empty pool removes the graph.
  void note_graph(const memory::Pool& pool, std::span<const Tensor> gradients);
  /// Returns the bytes in use now.
  [[nodiscard]] std::vector<OwnedBytes> now() const;
  /// Returns the peak of each owner, and `total`, the peak of all memory. If parameters are gathered ahead on a
  /// separate stream, `total` may be the sum of the peaks of both streams.
  [[nodiscard]] std::vector<OwnedBytes> peak() const;

 private:
  nn::Module model_;
  const nn::Optimizer* optimizer_;
  memory::Allocator allocator_;
  std::vector<OwnedBytes> max_;
  std::int64_t graph_gradients_ = 0;
  std::int64_t graph_idle_ = 0;  // bytes of the graph's pool that no tensor holds
};

}  // namespace tessera::train
