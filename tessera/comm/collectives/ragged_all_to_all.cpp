// ragged_all_to_all: each rank reads from each peer the rows that the peer offers, and writes them where the peer
// specifies. Offsets and sizes are in device memory and are read when the operation runs. Rows of the output that no
// rank names keep their values.
#include "tessera/base/error.h"
#include "tessera/comm/collectives/arguments.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

void check(const Operation& operation, int /*rank*/, int /*size*/) {
  check_count(operation);
  TESSERA_CHECK(operation.in_rows >= 0 && operation.out_rows >= 0, text_of(operation),
                ": in_rows and out_rows must not be negative, got ", operation.in_rows, " and ", operation.out_rows);
  const RaggedRows& rows = operation.rows;
  TESSERA_CHECK(rows.in_offsets != nullptr && rows.in_sizes != nullptr && rows.out_offsets != nullptr,
                text_of(operation), ": requires in_offsets, in_sizes and out_offsets, got a null pointer");
}
Extents extents(const Operation& operation, int /*rank*/, int /*size*/) {
  return {operation.in_rows * operation.count, operation.out_rows * operation.count};
}
Transfers transfers(const Operation& /*operation*/, int rank, int size) {
  Transfers transfers;
  for (int step = 0; step < size; ++step) {
    transfers.push_back(
        {.from = (rank + step) % size, .from_offset = kOffered, .to = rank, .to_offset = kOffered, .count = kOffered});
  }
  return transfers;
}
Offer offer(const Operation& operation, int /*rank*/, int peer) {
  const auto at = static_cast<std::size_t>(peer);
  const std::int64_t first = operation.rows.in_offsets[at];
  const std::int64_t size = operation.rows.in_sizes[at];
  TESSERA_CHECK(size >= 0 && first >= 0 && size <= operation.in_rows && first <= operation.in_rows - size,
                text_of(operation), ": rows for rank ", peer, " must be in [0, ", operation.in_rows, "), got [", first,
                ", ", first, " + ", size, ")");
  return {.from_offset = first * operation.count,
          .to_offset = operation.rows.out_offsets[at] * operation.count,
          .count = size * operation.count};
}

// Sizes are in device memory.
std::int64_t max_input(const Operation& /*operation*/, int /*size*/) { return kOffered; }

const CollectiveRegistration kRaggedAllToAll{{.kind = OpKind::kRaggedAllToAll,
                                              .name = "ragged_all_to_all",
                                              .check = check,
                                              .extents = extents,
                                              .transfers = transfers,
                                              .max_input = max_input,
                                              .offer = offer}};

}  // namespace
}  // namespace tessera::comm
