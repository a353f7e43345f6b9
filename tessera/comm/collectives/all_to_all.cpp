// all_to_all: each rank reads its chunk of each input. If chunks are uneven, only the peer knows where a chunk begins
// in its input. It offers the offset, and the offered length must match the requested length.
#include "tessera/base/error.h"
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int size) {
  check_count(operation);
  check_counts(operation, operation.in_counts, "in_counts", size);
  check_counts(operation, operation.out_counts, "out_counts", size);
  TESSERA_CHECK(operation.in_counts.empty() == operation.out_counts.empty(), text_of(operation),
                ": in_counts and out_counts require each other, got only ",
                operation.in_counts.empty() ? "out_counts" : "in_counts", "; pass both or neither");
}
Extents extents(const Operation& operation, int /*rank*/, int size) {
  return {total_of(operation.in_counts, operation.count, size), total_of(operation.out_counts, operation.count, size)};
}
Transfers transfers(const Operation& operation, int rank, int size) {
  Transfers transfers;
  const bool is_even = operation.in_counts.empty();
  for (int step = 0; step < size; ++step) {
    const int from = (rank + step) % size;
    const auto [first, count] = chunk_of(operation.out_counts, operation.count, from);
    // An uneven chunk without elements is still compared with the offer.
    if (is_even && count == 0) continue;
    const std::int64_t from_offset = is_even ? operation.count * rank : kOffered;
    transfers.push_back({.from = from, .from_offset = from_offset, .to = rank, .to_offset = first, .count = count});
  }
  return transfers;
}
Offer offer(const Operation& operation, int /*rank*/, int peer) {
  const auto [first, count] = chunk_of(operation.in_counts, operation.count, peer);
  return {.from_offset = first, .to_offset = -1, .count = count};
}

// Only the sender of uneven chunks knows how many it sends.
std::int64_t max_input(const Operation& operation, int size) {
  return operation.in_counts.empty() ? operation.count * size : kOffered;
}

const CollectiveRegistration kAllToAll{{.kind = OpKind::kAllToAll,
                                        .name = "all_to_all",
                                        .check = check,
                                        .extents = extents,
                                        .transfers = transfers,
                                        .max_input = max_input,
                                        .offer = offer}};

}  // namespace
}  // namespace tessera::comm
