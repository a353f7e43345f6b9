#include "tessera/autograd/function.h"

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/node.h"

namespace tessera::autograd {
namespace detail {
namespace {

// One application of a function. After forward, its saved tensors are sorted into inputs, outputs and others.
class FunctionNode final : public Node {
 public:
  explicit FunctionNode(std::shared_ptr<const Function> function) : function_(std::move(function)) {}
  [[nodiscard]] std::string name() const override { return function_->name(); }
  void differentiate(std::span<Tensor> gradients, bool attach) override;

 private:
  std::shared_ptr<const Function> function_;
};

class ForwardCall final : public FunctionCall {
 public:
  explicit ForwardCall(const Node* node) : node_(node) {}
  void save(std::vector<Tensor> tensors) override { kept = std::move(tensors); }
  [[nodiscard]] const Tensor& saved(std::size_t /*index*/) override {
    TESSERA_THROW(InvalidArgument, "FunctionCall::saved: only backward can read saved tensors");
  }
  [[nodiscard]] bool needs(std::size_t input) const override {
    return node_ != nullptr && static_cast<bool>(node_->edges[input].target);
  }
  std::vector<Tensor> kept;

 private:
  const Node* node_;  // null: nothing is recorded
};

class BackwardCall final : public FunctionCall {
 public:
  BackwardCall(Node& node, bool attach) : node_(node), attach_(attach) { held_.init(node.saved.size()); }
  void save(std::vector<Tensor> /*tensors*/) override {
    TESSERA_THROW(InvalidArgument, "FunctionCall::save: only forward can save tensors");
  }
  [[nodiscard]] const Tensor& saved(std::size_t index) override {
    TESSERA_CHECK(index < node_.saved.size(), node_.title(), ": index of a saved tensor must be in [0, ",
                  node_.saved.size(), "), got ", index);
    return node_.unpack(node_.saved[index], held_[index], attach_);
  }
  [[nodiscard]] bool needs(std::size_t input) const override { return node_.edges[input].is_wanted != 0; }

 private:
  Node& node_;
  bool attach_;
  FixedArray<Tensor, 2> held_;
};

void FunctionNode::differentiate(std::span<Tensor> gradients, bool attach) {
  std::vector<Tensor> incoming;
  for (const OutputSlot& slot : outputs) incoming.push_back(slot.grad);
  BackwardCall call(*this, attach);
  std::vector<Tensor> results = function_->backward(call, incoming);
  TESSERA_CHECK(results.size() == gradients.size(), title(), ": backward must return one gradient per input (",
                gradients.size(), "), got ", results.size());
  for (std::size_t i = 0; i < results.size(); ++i) gradients[i] = std::move(results[i]);
}

void save_all(Node& node, const std::vector<Tensor>& kept, const std::vector<Tensor>& inputs,
              const std::vector<Tensor>& outputs) {
  node.saved.init(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    SavedInput::Role role = SavedInput::Role::kOther;
    std::size_t place = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (kept[i].is_same(outputs[k])) role = SavedInput::Role::kOutput, place = k;
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (kept[i].is_same(inputs[k])) role = SavedInput::Role::kInput, place = k;
    }
    node.save(node.saved[i], kept[i], role, place);
  }
}

class InPlaceFunction final : public Function {
 public:
  InPlaceFunction(std::string name, FunctionBody forward, FunctionBody backward)
      : name_(std::move(name)), forward_(std::move(forward)), backward_(std::move(backward)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  std::vector<Tensor> forward(FunctionCall& call, const std::vector<Tensor>& inputs) const override {
    return forward_(call, inputs);
  }
  std::vector<Tensor> backward(FunctionCall& call, const std::vector<Tensor>& gradients) const override {
    return backward_(call, gradients);
  }

 private:
  std::string name_;
  FunctionBody forward_;
  FunctionBody backward_;
};

}  // namespace
}  // namespace detail

std::vector<Tensor> apply_function(const std::shared_ptr<const Function>& function, const std::vector<Tensor>& inputs) {
  bool is_recorded = false;
  for (const Tensor& input : inputs) is_recorded |= input && input.is_tracked();
  is_recorded &= tensor::is_grad_enabled();
  detail::NodeRef node;
  if (is_recorded) {
    node = detail::NodeRef::adopt(new detail::FunctionNode(function));
    node->connect(inputs);
  }
  detail::ForwardCall call(node.get());
  std::vector<Tensor> outputs;
  {
    const NoGrad no_grad;
    outputs = function->forward(call, inputs);
  }
  if (!is_recorded) return outputs;
  for (const Tensor& input : inputs) {
    if (node->where.context == nullptr && input) node->where = detail::CallContext::of(input);
  }
  // An input that is returned unchanged, or a tensor with its own history,
  // becomes a result without changing that tensor.
  for (Tensor& output : outputs) {
    if (output && output.is_tracked()) output = output.detach();
  }
  detail::save_all(*node, call.kept, inputs, outputs);
  node->produce(outputs, nullptr);
  return outputs;
}

std::vector<Tensor> apply_function(std::string name, FunctionBody forward, FunctionBody backward,
                                   const std::vector<Tensor>& inputs) {
  return apply_function(
      std::make_shared<const detail::InPlaceFunction>(std::move(name), std::move(forward), std::move(backward)),
      inputs);
}

}  // namespace tessera::autograd
