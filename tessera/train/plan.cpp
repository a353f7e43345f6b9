#include "tessera/train/plan.h"

namespace tessera::train {
namespace {

// Axes of the mesh, in this order.
enum Axis : int { kDp, kFsdp, kTp };

}  // namespace

ParallelPlan ParallelPlan::create(const Config& given, int world_size) {
  const Config config = resolved(given, world_size);
  ParallelPlan plan;
  plan.dp_ = config.mesh.dp;
  plan.fsdp_ = config.mesh.fsdp;
  plan.tp_ = config.mesh.tp;
  plan.is_sequence_parallel_ = config.mesh.sequence_parallel;
  plan.rows_ = config.train.batch / config.train.accumulate;
  if (world_size > 1) {
    plan.mesh_ = layout::Mesh::create({{"dp", plan.dp_, layout::Link::kMemory},
                                       {"fsdp", plan.fsdp_, layout::Link::kMemory},
                                       {"tp", plan.tp_, layout::Link::kMemory}});
  }
  plan.table_ = nn::standard_sharding(plan.mesh_, plan.is_sequence_parallel_);
  return plan;
}

layout::Layout ParallelPlan::tokens(bool is_batch_sharded) const {
  return (is_batch_sharded ? table_ : table_of_replicated_batch()).layout_of(mesh_, {"batch", ""}, "the tokens");
}

std::int64_t ParallelPlan::data_place(Rank rank) const {
  if (!mesh_) return 0;
  const layout::Coordinates at = mesh_.coordinates(rank);
  return at[kDp] * fsdp_ + at[kFsdp];
}

std::vector<std::uint64_t> ParallelPlan::sample_numbers(std::uint64_t k, Rank rank) const {
  const std::uint64_t first =
      k * static_cast<std::uint64_t>(rows_) + static_cast<std::uint64_t>(data_place(rank) * own_rows());
  std::vector<std::uint64_t> numbers;
  for (std::int64_t i = 0; i < own_rows(); ++i) numbers.push_back(first + static_cast<std::uint64_t>(i));
  return numbers;
}

}  // namespace tessera::train
