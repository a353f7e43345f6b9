#include "tessera/train/plan.h"

#include <array>

namespace tessera::train {
namespace {

using layout::Layout;
using layout::LayoutParts;
using layout::SubAxis;

// Axes of the mesh, in this order.
enum Axis : int { kDp, kFsdp, kTp };

// The first matrices of a block are sharded by rows, so that each rank has complete heads or hidden units; the last
// ones by columns, so that results are partial sums. fsdp always shards the first dimension: its shards are contiguous
// in memory, and gathering them copies nothing.
constexpr std::array kParameters{
    ParameterRow{ParameterKind::kEmbedding, "embedding", 0, 0, false},
    ParameterRow{ParameterKind::kAttentionNorm, "attention_norm", -1, 0, false},
    ParameterRow{ParameterKind::kQuery, "query", 0, 0, true},
    ParameterRow{ParameterKind::kKey, "key", 0, 0, true},
    ParameterRow{ParameterKind::kValue, "value", 0, 0, true},
    ParameterRow{ParameterKind::kOut, "out", 1, 0, true},
    ParameterRow{ParameterKind::kFeedForwardNorm, "feed_forward_norm", -1, 0, false},
    ParameterRow{ParameterKind::kGate, "gate", 0, 0, true},
    ParameterRow{ParameterKind::kUp, "up", 0, 0, true},
    ParameterRow{ParameterKind::kDown, "down", 1, 0, true},
    ParameterRow{ParameterKind::kLastNorm, "last_norm", -1, 0, false},
    ParameterRow{ParameterKind::kHead, "head", 0, 0, true},
};

constexpr std::array kActivations{
    ActivationRow{ActivationPoint::kTokens, 0, -1, -1},
    ActivationRow{ActivationPoint::kResidual, 0, 1, -1},
    ActivationRow{ActivationPoint::kInside, 0, -1, -1},
};

}  // namespace

std::span<const ParameterRow> parameter_rows() { return kParameters; }

const ParameterRow& row_of(ParameterKind kind) { return kParameters[static_cast<std::size_t>(kind)]; }

std::span<const ActivationRow> activation_rows() { return kActivations; }

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
  return plan;
}

Layout ParallelPlan::parameter_layout(ParameterKind kind, bool is_gathered) const {
  if (!mesh_) return {};
  const ParameterRow& row = row_of(kind);
  LayoutParts parts;
  parts.dims.resize(2);
  const auto sharding = [&](int dim, Axis axis, std::int64_t size) {
    if (dim >= 0) parts.dims[static_cast<std::size_t>(dim)].shardings.push_back({SubAxis{axis, 1, size}});
  };
  sharding(row.tp, kTp, tp_);
  if (!is_gathered) sharding(row.fsdp, kFsdp, fsdp_);
  return Layout::create(*mesh_, std::move(parts));
}

Layout ParallelPlan::kept(ParameterKind kind) const { return parameter_layout(kind, false); }

Layout ParallelPlan::in_use(ParameterKind kind) const { return parameter_layout(kind, true); }

Layout ParallelPlan::at(ActivationPoint point, bool is_batch_sharded) const {
  if (!mesh_) return {};
  const ActivationRow& row = kActivations[static_cast<std::size_t>(point)];
  const auto along = [](int dim) { return dim < 0 ? layout::Replicate() : layout::Shard(dim); };
  const layout::Placement data = along(is_batch_sharded ? row.data : -1);
  return Layout::create(*mesh_, {data, data, along(is_sequence_parallel_ ? row.tp_sequence : row.tp_whole)});
}

std::int64_t ParallelPlan::data_place(Rank rank) const {
  if (!mesh_) return 0;
  const layout::Coordinates at = mesh_->coordinates(rank);
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
