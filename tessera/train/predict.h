// Predictions from the program itself: the trainer takes its steps on the device "meta", as one rank of a world of any
// size, and the allocator, the operators and the process groups count what they are asked for. Nothing is computed and
// nothing is communicated.
//
//   const train::Prediction of = train::predict(config, 256);     // on a laptop
//   print(of.memory, of.flops, of.traffic);
//
// The prediction is that of rank 0, which has the largest shards if they are uneven.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/operation.h"
#include "tessera/layout/cost_model.h"
#include "tessera/train/config.h"
#include "tessera/train/task.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Communication of one kind along the same axes of the mesh.
struct PredictedTraffic {
  comm::OpKind kind = comm::OpKind::kBarrier;  ///< Kind of the operations.
  std::string axes = {};                       ///< "fsdp", "dp+fsdp".
  int ranks = 1;                               ///< Ranks of the group.
  std::int64_t count = 0;                      ///< Operations per step.
  std::int64_t nbytes = 0;                     ///< Bytes per step: for each operation, the larger buffer of the rank.
};

/// Needs of one step on one rank.
struct Prediction {
  std::vector<OwnedBytes> memory = {};         ///< Peak of each owner, and "total", the overall peak.
  double flops = 0;                            ///< Operations, including recomputation and updates.
  double nbytes = 0;                           ///< Minimum bytes that the operators read and write.
  std::vector<PredictedTraffic> traffic = {};  ///< Communication, largest first.
  std::int64_t parameters = 0;                 ///< Elements of all parameters, over all ranks.
};

/// Predicts a step of a configuration, resolved or not. Throws what resolved() throws.
TESSERA_API Prediction predict(const Config& config, int world_size);

/// Predicts a step of a task of your own. Its data is read, on the host, for two steps.
TESSERA_API Prediction predict(const Task& task, const Config& config, int world_size);

/// Returns the memory of predict(). Takes at most two micro-batches, since later ones need no more. Throws OutOfMemory
/// as soon as the rank maps more than `limit` bytes; 0: no limit.
TESSERA_API std::vector<OwnedBytes> predicted_memory(const Config& config, int world_size, std::int64_t limit = 0);

/// Returns the seconds that the communication of a step takes by a cost model, if nothing overlaps it.
TESSERA_API double communication_seconds(const Prediction& prediction, const layout::CostModel& costs = {});

/// Operations of a model per training token, forward and backward, over all ranks, by two conventions. Both count only
/// matrix products, with a multiplication and an addition as two operations, and backward as twice forward.
/// Recomputation by activation checkpointing and the embedding lookup do not count.
struct Flops {
  double causal = 0;  ///< Attention counts the pairs of a query and a key that it computes.
  double full = 0;    ///< Every query counts every key of its sequence.
};
/// Returns the operations per token of a resolved model, counted in a forward pass without storage.
TESSERA_API Flops flops_per_token(const ModelConfig& model);

/// Returns the number of parameter elements of a resolved model.
TESSERA_API std::int64_t parameter_count(const ModelConfig& model);

}  // namespace tessera::train
