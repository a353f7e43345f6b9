// Module::constrain(): activations at the layout of their meanings.
#include <memory>
#include <vector>

#include "tessera/autograd/function.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::nn::detail {
namespace {

// shard::redistribute with its time measured, also in backward.
class ConstrainFunction final : public autograd::Function {
 public:
  ConstrainFunction(layout::Layout from, layout::Layout to, std::shared_ptr<shard::ExposedTime> exposed)
      : from_(std::move(from)), to_(std::move(to)), exposed_(std::move(exposed)) {}
  [[nodiscard]] std::string name() const override { return "constrain"; }
  std::vector<Tensor> forward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& inputs) const override {
    return {moved(inputs[0], to_)};
  }
  std::vector<Tensor> backward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& gradients) const override {
    if (!gradients[0]) return {Tensor()};
    return {moved(gradients[0], layout::gradient_layout(from_))};
  }

 private:
  [[nodiscard]] Tensor moved(const Tensor& x, const layout::Layout& to) const {
    const shard::ExposedTime::Scope scope(*exposed_, tensor::current_stream(x.device()));
    return shard::redistribute(x, to);
  }
  layout::Layout from_;
  layout::Layout to_;
  std::shared_ptr<shard::ExposedTime> exposed_;
};

// Returns true if the layout leaves an axis of more than one rank, along which gradients can be partial.
bool has_replicas(const layout::Layout& layout) {
  std::int64_t shards = 1;
  for (int dim = 0; dim < layout.ndim(); ++dim) {
    for (const layout::Sharding& sharding : layout.shardings(dim)) shards *= sharding.by.size;
  }
  return shards != layout.mesh().size();
}

}  // namespace

Tensor constrained(const Tensor& x, const layout::Layout& to, const std::shared_ptr<shard::ExposedTime>& exposed) {
  if (x.layout() == to) return has_replicas(to) ? shard::settle(x) : x;
  return autograd::apply_function(std::make_shared<const ConstrainFunction>(x.layout(), to, exposed), {x})[0];
}

}  // namespace tessera::nn::detail
