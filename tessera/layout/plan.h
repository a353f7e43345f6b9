// A plan: the steps that bring a tensor from one layout to another. Data that every rank computes alike: no step names
// a rank, and prices are those of the largest part.
//
// Steps and what they do to the layout (x, y: sub-axes; [..]: cuts of a dimension, the last the finest):
//   all-gather        the last cuts of a dimension go           [.. x y] -> [..]
//   slice             cuts are added, each rank keeps its part  [..] -> [.. x y]            no communication
//   all-to-all        last cuts of one dimension move to another [.. x], [..] -> [..], [.. x]
//   reduce-scatter    partial axes become last cuts, of one dimension or several
//                                                               partial x y, [..] -> [.. x y]
//   all-reduce        partial axes are summed up                partial x y -> nothing
//   permute           parts change owners whole: each dimension is cut into the same pieces as before, by other axes
//                                                               [x y] -> [y x], [x] -> [y]
//   box exchange      each rank fetches what it lacks of its new part, by intersection with what others hold
//   partition         replicated to partial: the group's first rank keeps the values, others hold the neutral one
//                     (avg, min, max: all keep them)            nothing -> partial x        no communication
//   zero-fill         a part becomes a partial sum of the whole [.. x] -> partial sum x     no communication
// Cuts with blocks or given sizes stand in between only as they stand in the source's or the target's list of that
// dimension, and behind cuts with blocks only what stands there at one of the ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"

namespace tessera::layout {

/// What a step does: see the head of this file.
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
/// "all-gather", "slice", ...
TESSERA_API std::string_view to_string(StepKind kind);
/// Whether ranks talk in it.
TESSERA_API bool communicates(StepKind kind);

/// One step of a plan.
struct TESSERA_API Step {
  StepKind kind = StepKind::kSlice;  ///< what it does
  std::vector<SubAxis> axes;         ///< the group: ranks that differ along these; major to minor
  Layout before;                     ///< of the whole tensor
  Layout after;                      ///< likewise
  std::int64_t nbytes = 0;           ///< that the busiest rank receives
  std::int64_t copy_nbytes = 0;      ///< moved inside the rank: packing, unpacking, slices
  /// The parts before and after, and one message where there are copies (they are made message by message). What is
  /// all-reduced is there once.
  std::int64_t peak_nbytes = 0;
  double us = 0;  ///< by the cost model
};

/// A request for a plan.
struct TESSERA_API PlanRequest {
  Layout from;                ///< as it is
  Layout to;                  ///< as it is to be; on the same mesh
  Shape shape;                ///< of the whole tensor
  std::int64_t itemsize = 4;  ///< bytes of an element
  /// Most bytes of a rank's part in between; 0: the larger of the parts at the ends.
  std::int64_t budget_nbytes = 0;
};

/// See the head of this file.
struct TESSERA_API Plan {
  PlanRequest request;           ///< what it was made for
  std::vector<Step> steps;       ///< none: the layouts are the same
  std::int64_t nbytes = 0;       ///< received by the busiest rank, all steps
  std::int64_t peak_nbytes = 0;  ///< the largest of the steps
  double us = 0;                 ///< sum of the steps
  bool is_exact = true;          ///< no plan that keeps the rules of planner.h is cheaper; false: not all was searched

  /// A line per step: what, over which axes, to which layout, bytes, microseconds.
  [[nodiscard]] std::string text() const;
};

}  // namespace tessera::layout
