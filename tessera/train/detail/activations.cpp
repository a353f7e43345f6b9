#include "tessera/train/detail/activations.h"

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/hooks.h"

namespace tessera::train::detail {

nn::ModuleObserver Activations::observer() {
  return [kept = kept_](const std::string& module, const Tensor& output) {
    if (!kept->modules.insert(module).second) return;
    kept->outputs.emplace_back("activations/" + module, output.detach());
    if (!autograd::requires_grad(output)) return;
    autograd::on_gradient(output, [kept, module](const Tensor& gradient) {
      kept->gradients.emplace_back("activation_gradients/" + module, gradient.detach());
      return Tensor();
    });
  };
}

StepActivations Activations::kept() const {
  StepActivations all = kept_->outputs;
  all.insert(all.end(), kept_->gradients.begin(), kept_->gradients.end());
  return all;
}

}  // namespace tessera::train::detail
