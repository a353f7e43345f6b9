// A redistribution plan: the steps that change the layout of a tensor. All ranks compute the same plan: no step depends
// on the rank, and costs are those of the largest shard.
//
// Steps and their effect on the layout (x, y: sub-axes; [..]: splits of a dimension, the finest last):
//   all-gather        removes the last splits of a dimension    [.. x y] -> [..]
//   slice             adds splits; each rank keeps its shard    [..] -> [.. x y]            no communication
//   all-to-all        moves last splits to another dimension    [.. x], [..] -> [..], [.. x]
//   reduce-scatter    turns partial axes into last splits, of one dimension or several
//                                                               partial x y, [..] -> [.. x y]
//   all-reduce        reduces partial axes                      partial x y -> nothing
//   permute           shards change owners: each dimension has the same chunks as before, split by other axes
//                                                               [x y] -> [y x], [x] -> [y]
//   box exchange      each rank fetches the missing elements of its new shard, by intersection with the old shards
//   partition         replicated to partial: the first rank of the group keeps the values, others hold the neutral one
//                     (avg, min, max: all keep them)            nothing -> partial x        no communication
//   zero-fill         a shard becomes a partial sum             [.. x] -> partial sum x     no communication
// Intermediate layouts use splits with blocks or explicit sizes only as the source or the target has them in that
// dimension. After splits with blocks, they have only splits that the source or the target has there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"

namespace tessera::layout {

/// Kind of a step; the comment at the top of plan.h describes each.
enum class StepKind : std::uint8_t {
  kAllGather,
  kSlice,
  kAllToAll,
  kReduceScatter,
  kAllReduce,
  kPermute,
  kBoxExchange,
  kPartition,
  kZeroFill,
};
/// Returns "all-gather", "slice" and so on.
TESSERA_API std::string_view to_string(StepKind kind);
/// Returns true if the ranks communicate in the step.
TESSERA_API bool communicates(StepKind kind);

/// One step of a plan.
struct TESSERA_API Step {
  StepKind kind = StepKind::kSlice;  ///< Operation of the step.
  std::vector<SubAxis> axes;         ///< The group: ranks that differ along these sub-axes, major to minor.
  Layout before;                     ///< Layout of the tensor before the step.
  Layout after;                      ///< Layout of the tensor after the step.
  std::int64_t nbytes = 0;           ///< Bytes that the busiest rank receives.
  std::int64_t copy_nbytes = 0;      ///< Bytes copied inside the rank: packing, unpacking, slices.
  /// Peak memory: the shards before and after, plus one message if the step copies (copies are made message by
  /// message). An all-reduce is in place and counts its shard once.
  std::int64_t peak_nbytes = 0;
  double us = 0;  ///< Cost by the cost model.
};

/// A request for a plan.
struct TESSERA_API PlanRequest {
  Layout from;                ///< Current layout.
  Layout to;                  ///< Target layout, on the same mesh.
  Shape shape;                ///< Global shape.
  std::int64_t itemsize = 4;  ///< Bytes per element.
  /// Maximum bytes of an intermediate shard. 0: the larger of the shards under `from` and `to`.
  std::int64_t budget_nbytes = 0;
};

/// Steps from one layout to another, with their total cost.
struct TESSERA_API Plan {
  PlanRequest request;           ///< Request that the plan answers.
  std::vector<Step> steps;       ///< Empty if the layouts are equal.
  std::int64_t nbytes = 0;       ///< Bytes that the busiest rank receives in all steps.
  std::int64_t peak_nbytes = 0;  ///< Largest peak of a step.
  double us = 0;                 ///< Total cost of the steps.
  /// True if no plan under the rules of planner.h is cheaper; false if the search was not exhaustive.
  bool is_exact = true;

  /// Returns a line per step: kind, axes, resulting layout, bytes, microseconds.
  [[nodiscard]] std::string text() const;
};

}  // namespace tessera::layout
