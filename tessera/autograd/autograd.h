// Gradients. Calls on tensors that ask for gradients are recorded; backward() runs the record in reverse:
//
//   set_requires_grad(w, true);                       // w is a leaf
//   Tensor loss = sum(square(matmul(x, w)));
//   backward(loss);                                   // grad(w) is there, or is added to
//
// The record hangs on the results and goes with them. Backward frees what was saved as it goes, so that it can be run
// once, unless retain_graph is set. It runs on the calling thread, in one order: the newest call first. A call's
// gradient runs on the stream that the call ran on; gradients that pass from stream to stream are ordered by events,
// and at the end the caller's streams wait for the gradients of leaves. An error leaves no gradient in flight: what was
// run is consumed, leaves have what was accumulated so far.
//
// Threads: each thread records for itself and may run backward; two threads must not run through the same call at once
// (an error), but may share leaves. Whether calls are recorded is a matter of each thread.
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// Makes a floating or complex tensor a leaf that gradients are accumulated into, or an untracked one again (its
/// gradient goes). InvalidArgument for the result of a recorded call: detach() it.
TESSERA_API void set_requires_grad(const Tensor& tensor, bool requires_grad);
/// Whether gradients flow to this tensor: a leaf, or computed from one.
TESSERA_API bool requires_grad(const Tensor& tensor);
/// Whether it is no result of a recorded call.
TESSERA_API bool is_leaf(const Tensor& tensor);
/// A leaf's gradient; no tensor: none so far. InvalidArgument for a result of a recorded call: gradients() gives those.
TESSERA_API Tensor grad(const Tensor& leaf);
/// Replaces a leaf's gradient; no tensor: none.
TESSERA_API void set_grad(const Tensor& leaf, const Tensor& gradient);

/// How a record is run.
struct BackwardOptions {
  bool retain_graph = false;  ///< keeps what was saved, so that it can be run again
  bool create_graph = false;  ///< records the gradients too, for second derivatives; retains the graph as well
};

/// Adds to the gradient of every leaf that `loss` was computed from. `gradient` is that of the loss: of its shape and
/// dtype; none: 1, for a loss of one element.
TESSERA_API void backward(const Tensor& loss, const Tensor& gradient = {}, const BackwardOptions& options = {});
/// Likewise from several tensors at once; `gradients` has one for each, or none at all.
TESSERA_API void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
                          const BackwardOptions& options = {});

/// How gradients() runs.
struct GradientsOptions {
  bool retain_graph = false;  ///< keeps what was saved, so that it can be run again
  bool create_graph = false;  ///< records the gradients too, for second derivatives; retains the graph as well
  bool allow_unused = false;  ///< an input that no output depends on has no gradient, instead of being an error
};

/// The gradients of chosen tensors, leaves or not; leaves accumulate nothing. `grad_outputs` as for backward(). Only
/// what lies between is run.
TESSERA_API std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                          const std::vector<Tensor>& grad_outputs = {},
                                          const GradientsOptions& options = {});

/// Calls of this thread are not recorded while it lives.
class NoGrad : public tensor::GradModeScope {
 public:
  /// Off.
  NoGrad() : GradModeScope(false) {}
};
/// Calls of this thread are recorded while it lives.
class EnableGrad : public tensor::GradModeScope {
 public:
  /// On.
  EnableGrad() : GradModeScope(true) {}
};

}  // namespace tessera::autograd
