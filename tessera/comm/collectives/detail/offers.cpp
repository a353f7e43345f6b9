#include "tessera/comm/collectives/detail/offers.h"

namespace tessera::comm::detail {

Accepted accept(const Operation& operation, const Transfer& transfer, const Offer& offer, int rank, int size) {
  Accepted accepted{.transfer = transfer, .wrong = {}};
  Transfer& made = accepted.transfer;
  made.from_offset = offer.from_offset;
  if (transfer.to_offset == kOffered) made.to_offset = offer.to_offset;
  if (transfer.count == kOffered) made.count = offer.count;
  const std::int64_t room = definition(operation.kind).extents(operation, rank, size).out;
  const bool fits = made.to_offset >= 0 && made.count >= 0 && made.count <= room && made.to_offset <= room - made.count;
  // Rows may be expected, as the parts of an all_to_all are.
  std::int64_t expected = transfer.count;
  if (expected == kOffered && operation.rows.out_sizes != nullptr) {
    expected = operation.rows.out_sizes[transfer.from] * operation.count;
  }
  const bool is_expected = expected == kOffered || expected == offer.count;
  if (is_expected && fits) return accepted;
  accepted.wrong = "rank " + std::to_string(transfer.from) + " sends " + std::to_string(offer.count) + " elements";
  accepted.wrong += is_expected ? " to offset " + std::to_string(made.to_offset) + " of " + std::to_string(room)
                                : ", rank " + std::to_string(rank) + " expects " + std::to_string(expected);
  return accepted;
}

}  // namespace tessera::comm::detail
