#include "tessera/autograd/value_and_grad.h"

#include "tessera/autograd/autograd.h"

namespace tessera::autograd {

ValueAndGrad value_and_grad_of(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                               const std::vector<Tensor>& arguments) {
  const EnableGrad enable_grad;
  std::vector<Tensor> leaves;
  leaves.reserve(arguments.size());
  for (const Tensor& argument : arguments) leaves.push_back(argument.detach().requires_grad_());
  const Tensor value = function(leaves);
  return {value.detach(), gradients({value}, leaves)};
}

}  // namespace tessera::autograd
