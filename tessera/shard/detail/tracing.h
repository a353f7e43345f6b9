// How the parts of this layer tell the trace.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/layout/plan.h"
#include "tessera/shard/detail/entry.h"
#include "tessera/tensor/op_def.h"

namespace tessera::shard::detail {

/// "dp and tp".
std::string axes_text(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);
/// Whether a TraceLayouts lives on this thread.
bool is_tracing();
/// A call was made.
void trace_call(const tensor::Call& call, const Entry& entry);
/// A call over lists was made; its results are there.
void trace_list_call(const tensor::Call& call);
/// A cooperative operator shared `statistics` tensors along these axes.
void trace_cooperation(const tensor::Call& call, const layout::Mesh& mesh, std::span<const layout::SubAxis> axes,
                       int statistics, std::int64_t nbytes);
/// A collective on plain tensors was asked for.
void trace_collective(const std::string& name, const Tensor& from, const Tensor& to, const std::string& axes,
                      std::int64_t nbytes);
/// A function ran on the parts of these tensors.
void trace_local_map(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
/// A tensor of this dtype moves by a plan: asked for, or inside of an AutomaticMoves.
void trace_move(DType dtype, const std::shared_ptr<const layout::Plan>& plan);

/// Moves of this thread were not asked for while it lives, but are for `what`, an operator; and counted as such.
class AutomaticMoves {
 public:
  explicit AutomaticMoves(std::string_view what);
  ~AutomaticMoves();
  AutomaticMoves(const AutomaticMoves&) = delete;
  AutomaticMoves& operator=(const AutomaticMoves&) = delete;

 private:
  std::string_view outer_;
};

}  // namespace tessera::shard::detail
