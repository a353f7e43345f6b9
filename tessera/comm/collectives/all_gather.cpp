// all_gather: each rank reads the chunk of every other rank.
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  check_counts(operation, operation.out_counts, "counts", size);
}
Extents extents(const Operation& operation, int rank, int size) {
  return {chunk_of(operation.out_counts, operation.count, rank).count,
          total_of(operation.out_counts, operation.count, size)};
}
Transfers transfers(const Operation& operation, int rank, int size) {
  Transfers transfers;
  // Starts with itself, so that not all ranks read from the same rank at once.
  for (int step = 0; step < size; ++step) {
    const int from = (rank + step) % size;
    const auto [first, count] = chunk_of(operation.out_counts, operation.count, from);
    if (count > 0) transfers.push_back({.from = from, .to = rank, .to_offset = first, .count = count});
  }
  return transfers;
}

std::optional<std::int64_t> in_place(const Operation& operation, int rank, int /*size*/) {
  return -chunk_of(operation.out_counts, operation.count, rank).first;
}

std::int64_t max_input(const Operation& operation, int /*size*/) {
  return max_of(operation.out_counts, operation.count);
}

const CollectiveRegistration kAllGather{{.kind = OpKind::kAllGather,
                                         .name = "all_gather",
                                         .shared_list = SharedList::kOutCounts,
                                         .check = check,
                                         .extents = extents,
                                         .transfers = transfers,
                                         .max_input = max_input,
                                         .in_place = in_place}};
// The same transfers, of a few bytes, when symmetric memory is set up.
const CollectiveRegistration kRendezvous{
    {.kind = OpKind::kRendezvous, .name = "rendezvous", .check = check, .extents = extents, .transfers = transfers}};

}  // namespace
}  // namespace tessera::comm
