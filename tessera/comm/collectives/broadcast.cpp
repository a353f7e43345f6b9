// broadcast: each rank reads from the root.
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  check_root(operation, size);
}
Extents extents(const Operation& operation, int rank, int /*size*/) {
  return {rank == operation.root ? operation.count : 0, operation.count};
}
Transfers transfers(const Operation& operation, int rank, int /*size*/) {
  if (operation.count == 0) return {};
  return {{.from = operation.root, .to = rank, .count = operation.count}};
}
std::optional<std::int64_t> in_place(const Operation& /*operation*/, int /*rank*/, int /*size*/) { return 0; }

const CollectiveRegistration kBroadcast{{.kind = OpKind::kBroadcast,
                                         .name = "broadcast",
                                         .has_root = true,
                                         .check = check,
                                         .extents = extents,
                                         .transfers = transfers,
                                         .in_place = in_place}};

}  // namespace
}  // namespace tessera::comm
