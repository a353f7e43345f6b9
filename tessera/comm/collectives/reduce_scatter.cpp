// reduce_scatter: each rank reduces its own chunk.
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  check_counts(operation, operation.in_counts, "counts", size);
  check_reduction(operation);
}
Extents extents(const Operation& operation, int rank, int size) {
  return {total_of(operation.in_counts, operation.count, size),
          chunk_of(operation.in_counts, operation.count, rank).count};
}
Transfers transfers(const Operation& operation, int rank, int /*size*/) {
  const auto [first, count] = chunk_of(operation.in_counts, operation.count, rank);
  if (count == 0) return {};
  return {{.from = kEveryone, .from_offset = first, .to = rank, .to_offset = 0, .count = count}};
}

std::optional<std::int64_t> in_place(const Operation& operation, int rank, int /*size*/) {
  return chunk_of(operation.in_counts, operation.count, rank).first;
}

std::int64_t max_input(const Operation& operation, int size) {
  return total_of(operation.in_counts, operation.count, size);
}

const CollectiveRegistration kReduceScatter{{.kind = OpKind::kReduceScatter,
                                             .name = "reduce_scatter",
                                             .reduces = true,
                                             .shared_list = SharedList::kInCounts,
                                             .check = check,
                                             .extents = extents,
                                             .transfers = transfers,
                                             .max_input = max_input,
                                             .in_place = in_place}};

}  // namespace
}  // namespace tessera::comm
