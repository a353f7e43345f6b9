// The definitions of all collectives, each in the file of its name, and helpers for their arguments.
#pragma once

#include <span>
#include <string>

#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {

extern const CollectiveDef kAllReduceDef;
extern const CollectiveDef kAllGatherDef;
extern const CollectiveDef kReduceScatterDef;
extern const CollectiveDef kAllToAllDef;
extern const CollectiveDef kRaggedAllToAllDef;
extern const CollectiveDef kBroadcastDef;
extern const CollectiveDef kReduceDef;
extern const CollectiveDef kScatterDef;
extern const CollectiveDef kGatherDef;
extern const CollectiveDef kBarrierDef;
extern const CollectiveDef kPermuteDef;
extern const CollectiveDef kRendezvousDef;

namespace detail {

/// A chunk of a buffer: first element and length.
struct BufferChunk {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// Returns chunk `rank` of chunks with `counts` elements, or with `count` elements each if `counts` is empty.
BufferChunk part_of(std::span<const std::int64_t> counts, std::int64_t count, int rank);
/// Returns the number of elements of all chunks.
std::int64_t whole_of(std::span<const std::int64_t> counts, std::int64_t count, int size);

/// Returns the maximum number of elements that one rank sends; -1 if the ranks do not know it.
std::int64_t max_given(const Operation& operation, int size);

/// A transfer with the values that its source offered.
struct Accepted {
  Transfer transfer;
  std::string wrong;  ///< reason why it cannot be made; empty if it can
};
/// Applies an offer from `transfer.from` to a transfer of `rank`.
Accepted accept(const Operation& operation, const Transfer& transfer, const Offer& offer, int rank, int size);

/// Throws if the count is negative.
void check_count(const Operation& operation);
/// Throws if the number of counts is not the group size, or a count is negative. The error shows `name`.
void check_counts(const Operation& operation, std::span<const std::int64_t> counts, std::string_view name, int size);
/// Throws if the root is not a rank of the group.
void check_root(const Operation& operation, int size);
/// Throws if the dtype does not support the reduction.
void check_reduction(const Operation& operation);

}  // namespace detail
}  // namespace tessera::comm
