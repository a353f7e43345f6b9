// Calls of operators that only rearrange elements (tensor/rearrangement.h), along sharded dimensions. One launch sends
// the elements that change their rank, and nothing else. The axes that shard the input shard the result, in
// ceil-chunks. A call is analyzed once for all ranks, then compiled for each.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/plan.h"
#include "tessera/shard/detail/compiled_plan.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/rearrangement.h"

namespace tessera::shard::detail {

/// Analysis of a call, equal on all ranks.
struct Rearranged {
  tensor::Rearrangement how;
  layout::Layout output;
  std::vector<layout::SubAxis> axes;         ///< Axes that shard the rearranged dimensions; their ranks communicate.
  std::vector<bool> moves;                   ///< Per input, true if any of its elements change their rank.
  std::shared_ptr<const layout::Plan> plan;  ///< One exchange of boxes.
};
/// Analyzes a call. Returns null if no sharded dimension is rearranged or the other operands do not fit together.
/// `target` is the required layout of the result, if any.
std::shared_ptr<const Rearranged> find_rearranged(const tensor::Call& call, const layout::FactorRule& rule,
                                                  const Shape& result, const layout::Mesh& mesh,
                                                  const layout::Layout& target);

/// A rearrangement compiled for one rank.
struct CompiledRearrangement {
  /// Transfers of one input.
  struct Input {
    comm::Operation operation = {};  ///< Operation without its buffers.
    bool is_sent = false;            ///< True if any rank sends.
    std::int64_t packed_numel = 0;
    std::int64_t received_numel = 0;
    std::vector<RegionCopy> pack;    ///< Copies from the shard to messages.
    std::vector<RegionCopy> unpack;  ///< Copies from messages to the result.
    std::vector<RegionCopy> keep;    ///< Copies from the shard to the result.
  };
  std::vector<Input> inputs;
  const comm::ProcessGroup* group = nullptr;  ///< Null if nothing is sent.
  Shape shape;                                ///< Shape of the new shard.
  bool is_filled = false;                     ///< Some elements come from no input.
};
/// Compiles for the current rank, which must be on the mesh.
std::shared_ptr<const CompiledRearrangement> compile_rearranged(const tensor::Call& call, const Rearranged& what,
                                                                const Shape& result);

/// Computes the new shard from the shards of the inputs. Counts transfers.
Tensor run_rearranged(const Rearranged& what, const CompiledRearrangement& how, std::span<const Tensor> parts);

}  // namespace tessera::shard::detail
