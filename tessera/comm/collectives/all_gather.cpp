// all_gather: each rank reads the chunk of every other rank.
#include "tessera/comm/collectives/detail/definitions.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  detail::check_count(operation);
  detail::check_counts(operation, operation.out_counts, "counts", size);
}
Extents extents(const Operation& operation, int rank, int size) {
  return {detail::part_of(operation.out_counts, operation.count, rank).count,
          detail::whole_of(operation.out_counts, operation.count, size)};
}
Transfers transfers(const Operation& operation, int rank, int size) {
  Transfers transfers;
  // Starts with itself, so that not all ranks read from the same rank at once.
  for (int step = 0; step < size; ++step) {
    const int from = (rank + step) % size;
    const auto [first, count] = detail::part_of(operation.out_counts, operation.count, from);
    if (count > 0) transfers.push_back({.from = from, .to = rank, .to_offset = first, .count = count});
  }
  return transfers;
}

std::optional<std::int64_t> in_place(const Operation& operation, int rank, int /*size*/) {
  return -detail::part_of(operation.out_counts, operation.count, rank).first;
}

}  // namespace

const CollectiveDef kAllGatherDef = {
    .name = "all_gather", .check = check, .extents = extents, .transfers = transfers, .in_place = in_place};
const CollectiveDef kRendezvousDef = {.name = "rendezvous", .check = check, .extents = extents, .transfers = transfers};

}  // namespace tessera::comm
