// Calls of operators that only put elements elsewhere (tensor/rearrangement.h), along dimensions that are cut: what
// changes its rank is sent, in one launch, and nothing else. The result is cut by the axes that cut the input, in
// ceil-chunks. Found once for all ranks, then compiled for each.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/plan.h"
#include "tessera/shard/detail/compiled_move.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/rearrangement.h"

namespace tessera::shard::detail {

/// The same on all ranks.
struct Rearranged {
  tensor::Rearrangement how;
  layout::Layout output;
  std::vector<layout::SubAxis> axes;         ///< that cut what is rearranged: ranks that differ along these talk
  std::vector<bool> moves;                   ///< of each input: whether any of it changes its rank
  std::shared_ptr<const layout::Plan> plan;  ///< one exchange of boxes
};
/// How a call can be made so; null: no cut dimension is rearranged, or the rest of the call does not fit together.
/// `target`: the layout that the result must have, or none.
std::shared_ptr<const Rearranged> find_rearranged(const tensor::Call& call, const layout::FactorRule& rule,
                                                  const Shape& result, const layout::Mesh& mesh,
                                                  const layout::Layout& target);

/// One rank's side of it.
struct CompiledRearrangement {
  /// What one input gives.
  struct Input {
    comm::Operation operation = {};  ///< all but the buffers
    bool is_sent = false;            ///< whether any rank's parts are
    std::int64_t packed_numel = 0;
    std::int64_t received_numel = 0;
    std::vector<RegionCopy> pack;    ///< part -> messages
    std::vector<RegionCopy> unpack;  ///< messages -> result
    std::vector<RegionCopy> keep;    ///< part -> result
  };
  std::vector<Input> inputs;
  const comm::ProcessGroup* group = nullptr;  ///< null: nothing is sent
  Shape shape;                                ///< of the new part
  bool is_filled = false;                     ///< some of it comes from no input
};
/// For the current rank, which is on the mesh.
std::shared_ptr<const CompiledRearrangement> compile_rearranged(const tensor::Call& call, const Rearranged& what,
                                                                const Shape& result);

/// The new part, from this rank's parts of the inputs. Counts what is sent.
Tensor run_rearranged(const Rearranged& what, const CompiledRearrangement& how, std::span<const Tensor> parts);

}  // namespace tessera::shard::detail
