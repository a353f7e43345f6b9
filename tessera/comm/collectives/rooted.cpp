// Collectives with a root. broadcast and scatter: each rank reads from the root. gather: the root reads from all ranks.
// reduce: each rank reduces its share and writes it to the root's output.
#include "tessera/comm/collectives/detail/definitions.h"

namespace tessera::comm {
namespace {

void check_broadcast(const Operation& operation, int /*rank*/, int size) {
  detail::check_count(operation);
  detail::check_root(operation, size);
}
Extents broadcast_extents(const Operation& operation, int rank, int /*size*/) {
  return {rank == operation.root ? operation.count : 0, operation.count};
}
Transfers broadcast_transfers(const Operation& operation, int rank, int /*size*/) {
  if (operation.count == 0) return {};
  return {{.from = operation.root, .to = rank, .count = operation.count}};
}

void check_reduce(const Operation& operation, int /*rank*/, int size) {
  detail::check_count(operation);
  detail::check_root(operation, size);
  detail::check_reduction(operation);
}
Extents reduce_extents(const Operation& operation, int rank, int /*size*/) {
  return {operation.count, rank == operation.root ? operation.count : 0};
}
Transfers reduce_transfers(const Operation& operation, int rank, int size) {
  const auto [first, count] = share_of(operation.count, rank, size);
  if (count == 0) return {};
  return {{.from = kEveryone, .from_offset = first, .to = operation.root, .to_offset = first, .count = count}};
}

void check_scatter(const Operation& operation, int rank, int size) {
  check_broadcast(operation, rank, size);
  detail::check_counts(operation, operation.in_counts, "counts", size);
}
Extents scatter_extents(const Operation& operation, int rank, int size) {
  return {rank == operation.root ? detail::whole_of(operation.in_counts, operation.count, size) : 0,
          detail::part_of(operation.in_counts, operation.count, rank).count};
}
Transfers scatter_transfers(const Operation& operation, int rank, int /*size*/) {
  const auto [first, count] = detail::part_of(operation.in_counts, operation.count, rank);
  if (count == 0) return {};
  return {{.from = operation.root, .from_offset = first, .to = rank, .count = count}};
}

void check_gather(const Operation& operation, int rank, int size) {
  check_broadcast(operation, rank, size);
  detail::check_counts(operation, operation.out_counts, "counts", size);
}
Extents gather_extents(const Operation& operation, int rank, int size) {
  return {detail::part_of(operation.out_counts, operation.count, rank).count,
          rank == operation.root ? detail::whole_of(operation.out_counts, operation.count, size) : 0};
}
Transfers gather_transfers(const Operation& operation, int rank, int /*size*/) {
  // Each rank writes its own chunk, so that the root does not do all the work.
  const auto [first, count] = detail::part_of(operation.out_counts, operation.count, rank);
  if (count == 0) return {};
  return {{.from = rank, .to = operation.root, .to_offset = first, .count = count}};
}

std::optional<std::int64_t> same_place(const Operation& /*operation*/, int /*rank*/, int /*size*/) { return 0; }
std::optional<std::int64_t> scatter_place(const Operation& operation, int rank, int /*size*/) {
  return detail::part_of(operation.in_counts, operation.count, rank).first;
}
std::optional<std::int64_t> gather_place(const Operation& operation, int rank, int /*size*/) {
  return -detail::part_of(operation.out_counts, operation.count, rank).first;
}

}  // namespace

const CollectiveDef kBroadcastDef = {.name = "broadcast",
                                     .check = check_broadcast,
                                     .extents = broadcast_extents,
                                     .transfers = broadcast_transfers,
                                     .in_place = same_place};
const CollectiveDef kReduceDef = {.name = "reduce",
                                  .check = check_reduce,
                                  .extents = reduce_extents,
                                  .transfers = reduce_transfers,
                                  .in_place = same_place};
const CollectiveDef kScatterDef = {.name = "scatter",
                                   .check = check_scatter,
                                   .extents = scatter_extents,
                                   .transfers = scatter_transfers,
                                   .in_place = scatter_place};
const CollectiveDef kGatherDef = {.name = "gather",
                                  .check = check_gather,
                                  .extents = gather_extents,
                                  .transfers = gather_transfers,
                                  .in_place = gather_place};

}  // namespace tessera::comm
