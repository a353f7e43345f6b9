// scatter: each rank reads its chunk from the root.
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  check_root(operation, size);
  check_counts(operation, operation.in_counts, "counts", size);
}
Extents extents(const Operation& operation, int rank, int size) {
  return {rank == operation.root ? total_of(operation.in_counts, operation.count, size) : 0,
          chunk_of(operation.in_counts, operation.count, rank).count};
}
Transfers transfers(const Operation& operation, int rank, int /*size*/) {
  const auto [first, count] = chunk_of(operation.in_counts, operation.count, rank);
  if (count == 0) return {};
  return {{.from = operation.root, .from_offset = first, .to = rank, .count = count}};
}
std::int64_t max_input(const Operation& operation, int size) {
  return total_of(operation.in_counts, operation.count, size);
}
std::optional<std::int64_t> in_place(const Operation& operation, int rank, int /*size*/) {
  return chunk_of(operation.in_counts, operation.count, rank).first;
}

const CollectiveRegistration kScatter{{.kind = OpKind::kScatter,
                                       .name = "scatter",
                                       .has_root = true,
                                       .shared_list = SharedList::kInCounts,
                                       .check = check,
                                       .extents = extents,
                                       .transfers = transfers,
                                       .max_input = max_input,
                                       .in_place = in_place}};

}  // namespace
}  // namespace tessera::comm
