#include "tessera/train/plan.h"

#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::train {
namespace {

constexpr std::string_view kBatch = "batch";

// Returns the table with a row of [sharding]. The axes are checked here, since a world of one rank has no mesh.
nn::ShardingTable with_row(const nn::ShardingTable& table, const std::string& option, const std::string& meaning,
                           const std::string& axes) {
  try {
    nn::ShardingTable out = table.with(meaning, axes == "none" ? "" : axes);
    for (const std::string& axis : out.rows().at(meaning)) {
      TESSERA_CHECK(axis == "dp" || axis == "fsdp" || axis == "tp", "rows must name axes of the mesh (dp, fsdp, tp)");
    }
    return out;
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(InvalidArgument, option, ": must be axes of the mesh (dp, fsdp, tp) joined by +, none or auto, got '",
                  axes, "'; ", error.message());
  }
}

}  // namespace

nn::ShardingTable sharding_table(const Config& config, const layout::Mesh& mesh) {
  const ShardingConfig& rows = config.sharding;
  nn::ShardingTable table = nn::standard_sharding(mesh, config.mesh.sequence_parallel);
  for (const auto& [meaning, axes] :
       {std::pair("batch", &rows.batch), std::pair("sequence", &rows.sequence), std::pair("position", &rows.position),
        std::pair("embed", &rows.embed), std::pair("heads", &rows.heads), std::pair("mlp", &rows.mlp),
        std::pair("vocab", &rows.vocab), std::pair("parameters", &rows.parameters)}) {
    if (*axes != "auto") table = with_row(table, std::string("sharding.") + meaning, meaning, *axes);
  }
  for (const std::string& row : rows.other) {
    const std::size_t equals = row.find('=');
    TESSERA_CHECK(equals != std::string::npos && equals > 0,
                  "sharding.other: must be MEANING=AXES, as in patch=tp or patch=, got '", row, "'");
    table = with_row(table, "sharding.other", row.substr(0, equals), row.substr(equals + 1));
  }
  return table;
}

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
  plan.table_ = sharding_table(config, plan.mesh_);
  if (!plan.mesh_) return plan;
  for (const std::string& axis : plan.table_.rows().at(std::string(kBatch)))
    plan.batch_ranks_ *= plan.mesh_.axis(plan.mesh_.index_of(axis)).size;
  return plan;
}

layout::Layout ParallelPlan::batch_layout(int ndim) const {
  nn::Meaning meaning(static_cast<std::size_t>(ndim), "");
  meaning.front() = "batch";
  return table_.layout_of(mesh_, meaning, "the batch");
}

std::int64_t ParallelPlan::data_place(Rank rank) const {
  if (!mesh_) return 0;
  const layout::Coordinates at = mesh_.coordinates(rank);
  std::int64_t place = 0;
  for (const std::string& axis : table_.rows().at(std::string(kBatch))) {
    const int index = mesh_.index_of(axis);
    place = place * mesh_.axis(index).size + at[static_cast<std::size_t>(index)];
  }
  return place;
}

std::vector<std::uint64_t> ParallelPlan::sample_numbers(std::uint64_t k, Rank rank) const {
  const std::uint64_t first =
      k * static_cast<std::uint64_t>(rows_) + static_cast<std::uint64_t>(data_place(rank) * own_rows());
  std::vector<std::uint64_t> numbers;
  for (std::int64_t i = 0; i < own_rows(); ++i) numbers.push_back(first + static_cast<std::uint64_t>(i));
  return numbers;
}

}  // namespace tessera::train
