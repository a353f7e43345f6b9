// all_reduce: each rank reduces its share of the elements and writes it to all outputs. Each input is read once and
// each output is written once.
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int /*size*/) {
  check_count(operation);
  check_reduction(operation);
}
Extents extents(const Operation& operation, int /*rank*/, int /*size*/) { return {operation.count, operation.count}; }
Transfers transfers(const Operation& operation, int rank, int size) {
  const auto [first, count] = share_of(operation.count, rank, size);
  if (count == 0) return {};
  return {{.from = kEveryone, .from_offset = first, .to = kEveryone, .to_offset = first, .count = count}};
}

std::optional<std::int64_t> in_place(const Operation& /*operation*/, int /*rank*/, int /*size*/) { return 0; }

const CollectiveRegistration kAllReduce{{.kind = OpKind::kAllReduce,
                                         .name = "all_reduce",
                                         .reduces = true,
                                         .check = check,
                                         .extents = extents,
                                         .transfers = transfers,
                                         .in_place = in_place}};

}  // namespace
}  // namespace tessera::comm
