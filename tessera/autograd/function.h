// Functions with a hand-written gradient, outside any operator:
//
//   const auto outputs = apply_function("scale", [](FunctionCall& call, const std::vector<Tensor>& inputs) {...},
//                              [](FunctionCall& call, const std::vector<Tensor>& gradients) {...}, {x, w});
//
// The calls inside forward are not recorded; the function is one node of the graph.
// FunctionCall::save keeps the tensors that backward reads. Do not keep them in the function:
// saved tensors are versioned, packed by hooks, and freed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// State that forward and backward of one application share.
class TESSERA_API FunctionCall {
 public:
  virtual ~FunctionCall() = default;
  /// Keeps tensors (inputs, outputs or others) for backward. Call it in forward, at most once.
  virtual void save(std::vector<Tensor> tensors) = 0;
  /// Returns a tensor given to save(). Call it in backward.
  [[nodiscard]] virtual const Tensor& saved(std::size_t index) = 0;
  /// Returns true if the gradient of an input is required.
  [[nodiscard]] virtual bool needs(std::size_t input) const = 0;
};

/// A function with its gradient. Several threads may apply one object at the same time.
class TESSERA_API Function {
 public:
  virtual ~Function() = default;
  /// Returns the name for errors.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the results.
  virtual std::vector<Tensor> forward(FunctionCall& call, const std::vector<Tensor>& inputs) const = 0;
  /// Returns one gradient per input, with its shape and dtype. `gradients` has one
  /// gradient per result. In both, an empty handle means zero.
  virtual std::vector<Tensor> backward(FunctionCall& call, const std::vector<Tensor>& gradients) const = 0;
};

/// Runs `function` on the inputs. Records the call if gradients are enabled and an input is tracked.
TESSERA_API std::vector<Tensor> apply_function(const std::shared_ptr<const Function>& function,
                                               const std::vector<Tensor>& inputs);

/// Forward or backward of an inline function.
using FunctionBody = std::function<std::vector<Tensor>(FunctionCall& call, const std::vector<Tensor>& tensors)>;
/// Runs an inline function on the inputs. Records the call if gradients are enabled and an input is tracked.
TESSERA_API std::vector<Tensor> apply_function(std::string name, FunctionBody forward, FunctionBody backward,
                                               const std::vector<Tensor>& inputs);

}  // namespace tessera::autograd
