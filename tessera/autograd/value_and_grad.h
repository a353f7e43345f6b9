// Values and gradients of functions, without state on tensors.
//
//   auto [value, grads] = value_and_grad(loss_of)(weight, bias);   // loss_of(weight, bias) returns one element
#pragma once

#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// Result of value_and_grad().
struct ValueAndGrad {
  Tensor value;               ///< Result of the function, outside autograd.
  std::vector<Tensor> grads;  ///< Gradient per argument, in the order of the arguments.
};

/// Calls `function` with `arguments` and returns its result, which must have one element, and the gradients. Neither
/// the arguments nor tensors that the function captures accumulate gradients. Throws InvalidArgument if the result does
/// not depend on an argument. Calls do not nest: the gradients are constants for autograd. For second derivatives, use
/// gradients() with create_graph.
TESSERA_API ValueAndGrad value_and_grad_of(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                                           const std::vector<Tensor>& arguments);

/// Returns a function of the same arguments that returns a ValueAndGrad. The arguments are tensors, or one
/// std::vector<Tensor>.
template <class Function>
auto value_and_grad(Function function) {
  return [function = std::move(function)](const auto&... arguments) -> ValueAndGrad {
    if constexpr (sizeof...(arguments) == 1 && (requires { arguments.front(); } && ...)) {
      return value_and_grad_of([&](const std::vector<Tensor>& all) { return function(all); }, arguments...);
    } else {
      return value_and_grad_of(
          [&](const std::vector<Tensor>& all) {
            return [&]<std::size_t... kIndices>(std::index_sequence<kIndices...>) { return function(all[kIndices]...); }
            (std::make_index_sequence<sizeof...(arguments)>());
          },
          {Tensor(arguments)...});
    }
  };
}

}  // namespace tessera::autograd
