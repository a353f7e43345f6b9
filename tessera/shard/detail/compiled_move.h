// A plan as one rank carries it out: for each step the group, the operation it asks for, and which regions of dense
// memory are copied where before and after it. Made once for (from, to, shape, dtype) and kept by the rank; carrying it
// out again computes nothing.
//
// A step's messages lie one behind the other in the order of places. Where the old part is already that, it is sent as
// it is, and where the new part is, it is received into: a gather along the first dimension copies nothing.
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
  std::int64_t offset = 0;  ///< of the first, in elements
};
/// From one dense buffer to another; shapes are the same.
struct RegionCopy {
  Region from;
  Region to;
};
/// The copy of a piece between dense buffers that hold parts of these shapes from these offsets on.
RegionCopy region_copy(const Piece& piece, const Shape& from, std::int64_t from_offset, const Shape& to,
                       std::int64_t to_offset);
/// Copies that follow each other at equal distances made one.
void merge_copies(std::vector<RegionCopy>& copies);

/// See the head of this file.
struct CompiledStep {
  layout::StepKind kind = layout::StepKind::kSlice;
  const comm::ProcessGroup* group = nullptr;  ///< null: nothing is sent
  comm::Operation operation = {};             ///< all but the buffers
  Shape after;                                ///< of the new part
  bool packs = false;                         ///< messages are put together from the old part
  bool unpacks = false;                       ///< messages are received apart from the new part
  std::int64_t packed_numel = 0;
  std::int64_t received_numel = 0;
  std::vector<RegionCopy> pack;        ///< old part -> messages to send
  std::vector<RegionCopy> unpack;      ///< messages received -> new part
  std::vector<RegionCopy> keep;        ///< old part -> new part
  std::optional<tensor::Scalar> fill;  ///< what the new part holds where nothing is copied to
  std::int64_t divisor = 1;            ///< of the result, where the reduction does not divide
  std::int64_t nbytes = 0;             ///< received, by plan
};

/// One step for the current rank. `group` is null where the step does not communicate.
CompiledStep compile_step(const layout::Step& step, const Shape& shape, DType dtype, const comm::ProcessGroup* group);

/// See the head of this file.
struct CompiledMove {
  std::shared_ptr<const layout::Plan> plan;
  std::vector<CompiledStep> steps;
  bool communicates = false;
};
/// How a tensor gets from one layout to another. Layouts that the planner has no way between (an uneven cut by an axis,
/// parts of which are used elsewhere) are joined by the one without cuts.
std::shared_ptr<const layout::Plan> plan_between(const layout::Layout& from, const layout::Layout& to,
                                                 const Shape& shape, DType dtype);
/// The move of the current rank, which is on the mesh; kept. Refused where it communicates and that is forbidden.
std::shared_ptr<const CompiledMove> compiled_move(const layout::Layout& from, const layout::Layout& to,
                                                  const Shape& shape, DType dtype);

/// How many are kept at most; all are dropped when there are more.
inline constexpr std::size_t kMostMoves = 4096;

}  // namespace tessera::shard::detail
