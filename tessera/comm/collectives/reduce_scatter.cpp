// reduce_scatter: each rank reduces its own chunk.
#include "tessera/comm/collectives/detail/definitions.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  detail::check_count(operation);
  detail::check_counts(operation, operation.in_counts, "counts", size);
  detail::check_reduction(operation);
}
Extents extents(const Operation& operation, int rank, int size) {
  return {detail::whole_of(operation.in_counts, operation.count, size),
          detail::part_of(operation.in_counts, operation.count, rank).count};
}
Transfers transfers(const Operation& operation, int rank, int /*size*/) {
  const auto [first, count] = detail::part_of(operation.in_counts, operation.count, rank);
  if (count == 0) return {};
  return {{.from = kEveryone, .from_offset = first, .to = rank, .to_offset = 0, .count = count}};
}

std::optional<std::int64_t> in_place(const Operation& operation, int rank, int /*size*/) {
  return detail::part_of(operation.in_counts, operation.count, rank).first;
}

}  // namespace

const CollectiveDef kReduceScatterDef = {
    .name = "reduce_scatter", .check = check, .extents = extents, .transfers = transfers, .in_place = in_place};

}  // namespace tessera::comm
