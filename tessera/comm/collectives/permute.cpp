// permute: each rank reads from the rank that sends to it. All ranks pass the complete list of targets. A rank that no
// rank sends to keeps its output.
#include "tessera/base/error.h"
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

int source_of(const Operation& operation, int rank) {
  for (std::size_t from = 0; from < operation.targets.size(); ++from) {
    if (operation.targets[from] == rank) return static_cast<int>(from);
  }
  return -1;
}

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  TESSERA_CHECK(operation.targets.size() == static_cast<std::size_t>(size), text_of(operation),
                ": targets must have one entry per rank (", size, "), got ", operation.targets.size(),
                "; use -1 for none");
  for (std::size_t from = 0; from < operation.targets.size(); ++from) {
    const int to = operation.targets[from];
    TESSERA_CHECK(to >= -1 && to < size, text_of(operation), ": the target of rank ", from, " must be in [-1, ",
                  size - 1, "], got ", to);
    TESSERA_CHECK(to == -1 || source_of(operation, to) == static_cast<int>(from), text_of(operation),
                  ": targets must be distinct, but ranks ", source_of(operation, to), " and ", from, " both send to ",
                  to);
  }
}
Extents extents(const Operation& operation, int rank, int /*size*/) {
  const bool sends = operation.targets[static_cast<std::size_t>(rank)] != -1;
  return {sends ? operation.count : 0, source_of(operation, rank) != -1 ? operation.count : 0};
}
Transfers transfers(const Operation& operation, int rank, int /*size*/) {
  const int from = source_of(operation, rank);
  if (from == -1 || operation.count == 0) return {};
  return {{.from = from, .to = rank, .count = operation.count}};
}

const CollectiveRegistration kPermute{{.kind = OpKind::kPermute,
                                       .name = "permute",
                                       .shared_list = SharedList::kTargets,
                                       .check = check,
                                       .extents = extents,
                                       .transfers = transfers}};

}  // namespace
}  // namespace tessera::comm
