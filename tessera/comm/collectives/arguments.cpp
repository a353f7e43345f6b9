#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/detail/definitions.h"

namespace tessera::comm::detail {

BufferChunk part_of(std::span<const std::int64_t> counts, std::int64_t count, int rank) {
  if (counts.empty()) return {count * rank, count};
  BufferChunk part;
  const auto at = static_cast<std::size_t>(rank);
  for (std::size_t i = 0; i < at; ++i) part.first += counts[i];
  part.count = counts[at];
  return part;
}

std::int64_t whole_of(std::span<const std::int64_t> counts, std::int64_t count, int size) {
  if (counts.empty()) return count * size;
  std::int64_t whole = 0;
  for (const std::int64_t each : counts) whole += each;
  return whole;
}

std::int64_t max_given(const Operation& operation, int size) {
  const bool is_uneven = !operation.in_counts.empty() || !operation.out_counts.empty();
  switch (operation.kind) {
    case OpKind::kReduceScatter:
    case OpKind::kScatter: return whole_of(operation.in_counts, operation.count, size);
    case OpKind::kAllGather:
    case OpKind::kGather: return is_uneven ? *std::ranges::max_element(operation.out_counts) : operation.count;
    case OpKind::kAllToAll: return is_uneven ? -1 : operation.count * size;
    case OpKind::kRaggedAllToAll: return -1;
    default: return operation.count;
  }
}

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

void check_count(const Operation& operation) {
  // Beyond this, the size of all ranks in bytes might overflow.
  constexpr std::int64_t kMax = std::int64_t{1} << 48;
  TESSERA_CHECK(operation.count >= 0 && operation.count <= kMax, text_of(operation), ": count must be in [0, ", kMax,
                "], got ", operation.count);
}

void check_counts(const Operation& operation, std::span<const std::int64_t> counts, std::string_view name, int size) {
  if (counts.empty()) return;
  TESSERA_CHECK(counts.size() == static_cast<std::size_t>(size), text_of(operation), ": ", name,
                " must have one entry per rank (", size, "), got ", counts.size());
  for (const std::int64_t count : counts) {
    TESSERA_CHECK(count >= 0, text_of(operation), ": ", name, " must not be negative, got ", count);
  }
}

void check_root(const Operation& operation, int size) {
  TESSERA_CHECK(operation.root >= 0 && operation.root < size, text_of(operation), ": root must be in [0, ", size - 1,
                "], got ", operation.root);
}

void check_reduction(const Operation& operation) {
  TESSERA_CHECK(can_reduce(operation.dtype, operation.reduction.kind), text_of(operation), ": ",
                to_string(operation.reduction.kind), " is not defined for ", to_string(operation.dtype),
                operation.dtype == DType::kBool ? "; use min for logical and, max for logical or" : "");
}

}  // namespace tessera::comm::detail
