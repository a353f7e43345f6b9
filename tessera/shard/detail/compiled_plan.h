// A redistribution plan as one rank executes it: for each step the group, the operation, and the regions of dense
// memory that are copied before and after it. It is compiled once for (from, to, shape, dtype) and cached by the rank.
//
// The messages of a step are contiguous, in the order of group ranks. If the old shard already has this form, it is
// sent directly. If the new shard has it, messages are received into it: an all-gather along the first dimension copies
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/comm/process_group.h"
#include "tessera/layout/plan.h"
#include "tessera/shard/detail/exchange.h"
#include "tessera/tensor/scalar.h"

namespace tessera::shard::detail {

/// Elements of a dense buffer.
struct Region {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  ///< Offset of the first element, in elements.
};
/// Copy from one dense buffer to another. Both regions have equal shapes.
struct RegionCopy {
  Region from;
  Region to;
};
/// Returns the copy of a chunk between dense buffers that hold shards of these shapes at these offsets.
RegionCopy region_copy(const Chunk& chunk, const Shape& from, std::int64_t from_offset, const Shape& to,
                       std::int64_t to_offset);
/// Merges copies that follow each other at equal distances.
void merge_copies(std::vector<RegionCopy>& copies);

/// One step of a compiled plan.
struct CompiledStep {
  layout::StepKind kind = layout::StepKind::kSlice;
  const comm::ProcessGroup* group = nullptr;  ///< Null if nothing is sent.
  comm::Operation operation = {};             ///< Operation without its buffers.
  Shape after;                                ///< Shape of the new shard.
  bool packs = false;                         ///< Messages are assembled from the old shard.
  bool unpacks = false;                       ///< Messages are received into a separate buffer.
  std::int64_t packed_numel = 0;
  std::int64_t received_numel = 0;
  std::vector<RegionCopy> pack;        ///< Copies from the old shard to messages.
  std::vector<RegionCopy> unpack;      ///< Copies from received messages to the new shard.
  std::vector<RegionCopy> keep;        ///< Copies from the old shard to the new one.
  std::optional<tensor::Scalar> fill;  ///< Value of elements of the new shard that nothing is copied to.
  std::int64_t divisor = 1;            ///< Divisor of the result, if the reduction does not divide.
  std::int64_t nbytes = 0;             ///< Planned bytes to receive.
};

/// Compiles one step for the current rank. `group` is null if the step does not communicate.
CompiledStep compile_step(const layout::Step& step, const Shape& shape, DType dtype, const comm::ProcessGroup* group);

/// All steps of a compiled plan.
struct CompiledPlan {
  std::shared_ptr<const layout::Plan> plan;
  std::vector<CompiledStep> steps;
  bool communicates = false;
};
/// Returns a plan between two layouts. If the planner finds none (an uneven cut by an axis whose sub-axes are used
/// elsewhere), the plan goes through the replicated layout.
std::shared_ptr<const layout::Plan> plan_between(const layout::Layout& from, const layout::Layout& to,
                                                 const Shape& shape, DType dtype);
/// Returns the cached plan of the current rank, which must be on the mesh. Throws if it communicates and that is
/// forbidden.
std::shared_ptr<const CompiledPlan> compiled_plan(const layout::Layout& from, const layout::Layout& to,
                                                  const Shape& shape, DType dtype);

/// Maximum number of cached plans. If it is exceeded, all are dropped.
inline constexpr std::size_t kMaxPlans = 4096;

}  // namespace tessera::shard::detail
