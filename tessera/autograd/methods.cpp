// The methods of tensors that concern gradients.
#include "tessera/tensor/methods.h"

#include "tessera/autograd/autograd.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

const Tensor& Methods::requires_grad_(bool requires_grad) const {
  autograd::set_requires_grad(self(), requires_grad);
  return self();
}
bool Methods::requires_grad() const { return autograd::requires_grad(self()); }
Tensor Methods::grad() const { return autograd::grad(self()); }
void Methods::zero_grad() const { autograd::set_grad(self(), {}); }
void Methods::backward() const { autograd::backward(self()); }
void Methods::backward(const Tensor& gradient) const { autograd::backward(self(), gradient); }

}  // namespace tessera::tensor
