// gather: each rank writes its chunk to the output of the root, so that the root does not do all the work.
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  check_root(operation, size);
  check_counts(operation, operation.out_counts, "counts", size);
}
Extents extents(const Operation& operation, int rank, int size) {
  return {chunk_of(operation.out_counts, operation.count, rank).count,
          rank == operation.root ? total_of(operation.out_counts, operation.count, size) : 0};
}
Transfers transfers(const Operation& operation, int rank, int /*size*/) {
  const auto [first, count] = chunk_of(operation.out_counts, operation.count, rank);
  if (count == 0) return {};
  return {{.from = rank, .to = operation.root, .to_offset = first, .count = count}};
}
std::int64_t max_input(const Operation& operation, int /*size*/) {
  return max_of(operation.out_counts, operation.count);
}
std::optional<std::int64_t> in_place(const Operation& operation, int rank, int /*size*/) {
  return -chunk_of(operation.out_counts, operation.count, rank).first;
}

const CollectiveRegistration kGather{{.kind = OpKind::kGather,
                                      .name = "gather",
                                      .has_root = true,
                                      .shared_list = SharedList::kOutCounts,
                                      .check = check,
                                      .extents = extents,
                                      .transfers = transfers,
                                      .max_input = max_input,
                                      .in_place = in_place}};

}  // namespace
}  // namespace tessera::comm
