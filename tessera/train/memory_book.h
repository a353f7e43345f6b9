// Bytes of a rank's memory by owner. Parameters, gradients, the state of the optimizer and what is gathered are known
// one by one; all else that is in use is activations: results that backward will read, and what is under way.
// A step that is replayed keeps its activations' memory for good.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/pool.h"
#include "tessera/train/model.h"
#include "tessera/train/optimizer.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// See the head of this file.
class TESSERA_API MemoryBook {
 public:
  /// Of these, which outlive it.
  MemoryBook(const Model& model, const Optimizer& optimizer);
  /// Keeps the most that each owner has had; called at the ends of forward and of backward, where owners hold most.
  void note();
  /// Steps are replayed from here on by a graph with memory of its own, in `pool`: all of it is in use between steps
  /// too, these gradients among it. No pool: they are not any more.
  void note_graph(const memory::Pool& pool, std::span<const Tensor> gradients);
  /// In use now.
  [[nodiscard]] std::vector<OwnedBytes> now() const;
  /// The most of each owner, and `total`: the most that was in use at once; where parameters are gathered ahead, on a
  /// stream of their own, it may be as much as the sum of what each stream had most of.
  [[nodiscard]] std::vector<OwnedBytes> peak() const;

 private:
  const Model* model_;
  const Optimizer* optimizer_;
  memory::Allocator allocator_;
  std::vector<OwnedBytes> most_;
  std::int64_t graph_gradients_ = 0;
  std::int64_t graph_idle_ = 0;  // bytes of the graph's pool that no tensor holds
};

}  // namespace tessera::train
