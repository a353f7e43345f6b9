// Functions whose gradient is written by hand, from outside any operator:
//
//   const auto outputs = apply_function("scale", [](FunctionCall& call, const std::vector<Tensor>& inputs) {...},
//                              [](FunctionCall& call, const std::vector<Tensor>& gradients) {...}, {x, w});
//
// Forward is not recorded; the whole is one node of the tape. What backward reads is kept by FunctionCall::save, never
// in the function itself, so that it is versioned, packed by hooks and freed like everything saved.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// What forward and backward of one application share.
class TESSERA_API FunctionCall {
 public:
  virtual ~FunctionCall() = default;
  /// In forward: keeps tensors for backward: inputs, outputs or others. Called at most once.
  virtual void save(std::vector<Tensor> tensors) = 0;
  /// In backward: a tensor given to save().
  [[nodiscard]] virtual const Tensor& saved(std::size_t index) = 0;
  /// Whether anybody wants the gradient of an input.
  [[nodiscard]] virtual bool needs(std::size_t input) const = 0;
};

/// A function with its gradient. One object may be applied many times, by several threads.
class TESSERA_API Function {
 public:
  virtual ~Function() = default;
  /// Shown in errors.
  [[nodiscard]] virtual std::string name() const = 0;
  /// The results.
  virtual std::vector<Tensor> forward(FunctionCall& call, const std::vector<Tensor>& inputs) const = 0;
  /// A gradient for each input, of its shape and dtype; no tensor: zero. `gradients` has one for each result; no
  /// tensor: zero.
  virtual std::vector<Tensor> backward(FunctionCall& call, const std::vector<Tensor>& gradients) const = 0;
};

/// Runs `function` on the inputs, recorded when gradients are on and one of them is tracked.
TESSERA_API std::vector<Tensor> apply_function(const std::shared_ptr<const Function>& function,
                                               const std::vector<Tensor>& inputs);

/// Forward or backward of a function given in place.
using FunctionBody = std::function<std::vector<Tensor>(FunctionCall& call, const std::vector<Tensor>& tensors)>;
/// Likewise for a function given in place.
TESSERA_API std::vector<Tensor> apply_function(std::string name, FunctionBody forward, FunctionBody backward,
                                               const std::vector<Tensor>& inputs);

}  // namespace tessera::autograd
