// The collectives there are, each defined in the file of its name, and what their arguments have in common.
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

/// The parts of a buffer, even or not: where part `rank` begins, and its length.
struct Part {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// Part `rank` of parts of `counts` elements, or of `count` each where there are none.
Part part_of(std::span<const std::int64_t> counts, std::int64_t count, int rank);
/// Elements of all parts together.
std::int64_t whole_of(std::span<const std::int64_t> counts, std::int64_t count, int size);

/// The most elements that one rank gives, where all ranks know it; -1: they do not.
std::int64_t most_given(const Operation& operation, int size);

/// A move whose places its source knows, with what that offered.
struct Accepted {
  Move move;
  std::string wrong;  ///< why it cannot be made; empty: it can
};
/// What `rank` makes of an offer from `move.from`.
Accepted accept(const Operation& operation, const Move& move, const Offer& offer, int rank, int size);

/// Refuses a count that is negative.
void check_count(const Operation& operation);
/// Refuses counts of another number of ranks, or negative ones. `name` is shown.
void check_counts(const Operation& operation, std::span<const std::int64_t> counts, std::string_view name, int size);
/// Refuses a root that is no rank.
void check_root(const Operation& operation, int size);
/// Refuses a reduction that the dtype does not have.
void check_reduction(const Operation& operation);

}  // namespace detail
}  // namespace tessera::comm
