// Gradients. Calls on tensors that require gradients are recorded; backward() runs the recorded graph in reverse:
//
//   set_requires_grad(w, true);                       // w is a leaf
//   Tensor loss = sum(square(matmul(x, w)));
//   backward(loss);                                   // sets grad(w), or adds to it
//
// The results own the graph. Backward frees saved tensors as it proceeds, so it runs once unless retain_graph is set.
// It runs on the calling thread, the newest call first. The gradient of a call runs on the stream of the call. Events
// order gradients that cross streams, and at the end the streams of the caller wait for the gradients of leaves. After
// an error, the nodes that ran are consumed, and leaves keep the gradients accumulated so far.
//
// Each thread records its own calls and may run backward. Two threads must not run through the same call at the same
// time (an error), but may share leaves. Each thread enables or disables recording separately.
#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// Makes a floating or complex tensor a leaf that accumulates gradients, or an untracked tensor without a gradient.
/// Throws InvalidArgument for the result of a recorded call; use detach().
TESSERA_API void set_requires_grad(const Tensor& tensor, bool requires_grad);
/// Returns true if gradients flow to this tensor: it is a leaf, or computed from one.
TESSERA_API bool requires_grad(const Tensor& tensor);
/// Returns true if the tensor is not the result of a recorded call.
TESSERA_API bool is_leaf(const Tensor& tensor);
/// Returns the gradient of a leaf; empty if none was computed. Throws InvalidArgument
/// for the result of a recorded call; use gradients().
TESSERA_API Tensor grad(const Tensor& leaf);
/// Replaces the gradient of a leaf; an empty handle removes it.
TESSERA_API void set_grad(const Tensor& leaf, const Tensor& gradient);

/// Options of backward().
struct BackwardOptions {
  bool retain_graph = false;  ///< Keeps saved tensors, so that the graph can run again.
  bool create_graph = false;  ///< Records the gradients too, for second derivatives. Implies retain_graph.
};

/// Adds to the gradient of every leaf that `loss` depends on. `gradient` is the gradient of the loss, with its shape
/// and dtype. By default it is 1, for a loss of one element.
TESSERA_API void backward(const Tensor& loss, const Tensor& gradient = {}, const BackwardOptions& options = {});
/// Runs backward from several tensors. `gradients` has one gradient per output, or is empty.
TESSERA_API void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
                          const BackwardOptions& options = {});

/// Options of gradients().
struct GradientsOptions {
  bool retain_graph = false;  ///< Keeps saved tensors, so that the graph can run again.
  bool create_graph = false;  ///< Records the gradients too, for second derivatives. Implies retain_graph.
  bool allow_unused = false;  ///< An input that no output depends on has no gradient, instead of an error.
};

/// Returns the gradients of `inputs`, leaves or not. Leaves accumulate nothing. `grad_outputs` is as for backward().
/// Runs only the calls between inputs and outputs.
TESSERA_API std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                          const std::vector<Tensor>& grad_outputs = {},
                                          const GradientsOptions& options = {});

/// Disables recording on this thread for the lifetime of the scope.
class NoGrad : public tensor::GradModeScope {
 public:
  /// Disables recording.
  NoGrad() : GradModeScope(false) {}
};
/// Enables recording on this thread for the lifetime of the scope.
class EnableGrad : public tensor::GradModeScope {
 public:
  /// Enables recording.
  EnableGrad() : GradModeScope(true) {}
};

}  // namespace tessera::autograd
