// Hooks that pass events of this layer to the trace.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/layout/plan.h"
#include "tessera/shard/detail/dispatch_plan.h"
#include "tessera/tensor/op_def.h"

namespace tessera::shard::detail {

/// Returns "dp and tp".
std::string axes_text(const layout::Mesh& mesh, std::span<const layout::SubAxis> axes);
/// Returns true if a TraceLayouts exists on this thread.
bool is_tracing();
/// Traces a call.
void trace_call(const tensor::Call& call, const DispatchPlan& entry);
/// Traces a call over lists, after its results exist.
void trace_list_call(const tensor::Call& call);
/// Traces a cooperative operator that shared `statistics` tensors along these axes.
void trace_cooperation(const tensor::Call& call, const layout::Mesh& mesh, std::span<const layout::SubAxis> axes,
                       int statistics, std::int64_t nbytes);
/// Traces a collective on plain tensors.
void trace_collective(const std::string& name, const Tensor& from, const Tensor& to, const std::string& axes,
                      std::int64_t nbytes);
/// Traces a function that ran on the shards of these tensors.
void trace_local_map(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
/// Traces the redistribution of a tensor of this dtype, explicit or inside an AutomaticRedistributes.
void trace_move(DType dtype, const std::shared_ptr<const layout::Plan>& plan);

/// Marks redistributions of this thread as automatic, on behalf of the operator `what`, and counts them as such.
class AutomaticRedistributes {
 public:
  explicit AutomaticRedistributes(std::string_view what);
  ~AutomaticRedistributes();
  AutomaticRedistributes(const AutomaticRedistributes&) = delete;
  AutomaticRedistributes& operator=(const AutomaticRedistributes&) = delete;

 private:
  std::string_view outer_;
};

}  // namespace tessera::shard::detail
