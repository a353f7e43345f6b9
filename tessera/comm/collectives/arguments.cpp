#include "tessera/comm/collectives/arguments.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::comm {

BufferChunk chunk_of(std::span<const std::int64_t> counts, std::int64_t count, int rank) {
  if (counts.empty()) return {count * rank, count};
  BufferChunk chunk;
  const auto at = static_cast<std::size_t>(rank);
  for (std::size_t i = 0; i < at; ++i) chunk.first += counts[i];
  chunk.count = counts[at];
  return chunk;
}

std::int64_t total_of(std::span<const std::int64_t> counts, std::int64_t count, int size) {
  if (counts.empty()) return count * size;
  std::int64_t total = 0;
  for (const std::int64_t each : counts) total += each;
  return total;
}

std::int64_t max_of(std::span<const std::int64_t> counts, std::int64_t count) {
  return counts.empty() ? count : *std::ranges::max_element(counts);
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
  TESSERA_CHECK(can_reduce(operation.dtype, operation.reduction.kind), text_of(operation), ": dtype must be one that ",
                to_string(operation.reduction.kind), " is defined for, got ", to_string(operation.dtype),
                operation.dtype == DType::kBool ? "; use min for logical and, max for logical or" : "");
}

}  // namespace tessera::comm
