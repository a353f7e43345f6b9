// Recording: the autograd step of a call, before the kernel.
#include <bit>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/kept_calls.h"
#include "tessera/autograd/detail/run.h"
#include "tessera/tensor/call.h"

namespace tessera::autograd::detail {
namespace {

using tensor::Call;
using tensor::OpArgument;
using tensor::OperatorState;

// Calls body(place) for every tensor of the arguments whose bits are set, with lists expanded.
template <class F>
void for_each_place(const std::vector<OpArgument>& arguments, std::uint64_t bits, std::size_t count, const F& body) {
  if (bits == 0) return;
  std::size_t lists = 0;
  for (const OpArgument& argument : arguments) lists += argument.is_list ? 1 : 0;
  const std::size_t singles = arguments.size() - lists;
  const std::size_t length = lists == 0 ? 1 : (count - singles) / lists;
  std::size_t place = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t tensors = arguments[i].is_list ? length : 1;
    if ((bits >> i & 1) != 0) {
      for (std::size_t k = 0; k < tensors; ++k) body(place + k);
    }
    place += tensors;
  }
}

// A recorded call of an operator.
class OpNode final : public Node {
 public:
  explicit OpNode(const Call& call) : op_(call.op), attributes_(call.attributes) {}
  [[nodiscard]] std::string name() const override { return op_.name(); }
  void differentiate(std::span<Tensor> gradients, bool attach) override;
  void save_inputs(const Call& call);
  void save_outputs(const Call& call);
  [[nodiscard]] const OperatorState& op() const { return *op_.operator->(); }
  [[nodiscard]] const tensor::Attributes& attributes() const { return attributes_; }

 private:
  tensor::Operator op_;
  tensor::Attributes attributes_;
  std::size_t filled_ = 0;  // number of entries in `saved`
};

void OpNode::save_inputs(const Call& call) {
  std::size_t count = 0;
  for_each_place(op().inputs, op().saved_inputs, call.inputs.size(), [&](std::size_t) { ++count; });
  for_each_place(op().outputs, op().saved_outputs, call.outputs.size(), [&](std::size_t) { ++count; });
  saved.init(count);
  for_each_place(op().inputs, op().saved_inputs, call.inputs.size(), [&](std::size_t place) {
    save(saved[filled_++], call.inputs[place], SavedInput::Role::kInput, place);
  });
}

void OpNode::save_outputs(const Call& call) {
  for_each_place(op().outputs, op().saved_outputs, call.outputs.size(), [&](std::size_t place) {
    save(saved[filled_++], call.outputs[place], SavedInput::Role::kOutput, place);
  });
}

// The call as the gradient function of an operator sees it.
class OpGradient final : public tensor::GradientCall {
 public:
  OpGradient(OpNode& node, std::span<Tensor> gradients, bool attach)
      : node_(node), gradients_(gradients), attach_(attach) {
    held_.init(node.saved.size());
  }
  [[nodiscard]] const Tensor& grad(int output) const override { return node_.outputs[at(output)].grad; }
  [[nodiscard]] const Tensor& input(int index) const override { return saved(SavedInput::Role::kInput, index); }
  [[nodiscard]] const Tensor& output(int index) const override { return saved(SavedInput::Role::kOutput, index); }
  [[nodiscard]] const Shape& input_shape(int index) const override { return node_.inputs[at(index)].shape; }
  [[nodiscard]] DType input_dtype(int index) const override { return node_.inputs[at(index)].dtype; }
  [[nodiscard]] int inputs() const override { return static_cast<int>(node_.inputs.size()); }
  [[nodiscard]] bool needs(int input) const override { return node_.edges[at(input)].is_wanted != 0; }
  void set(int input, Tensor gradient) override {
    if (needs(input)) gradients_[at(input)] = std::move(gradient);
  }
  bool add_to_sum(int input, const AddToSum& add) override {
    return needs(input) && BackwardRun::add_to_sum(node_.edges[at(input)], node_.where, add);
  }
  [[nodiscard]] tensor::AttributesRef attributes() const override { return node_.attributes().ref(); }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const Tensor& saved(SavedInput::Role role, int index) const {
    for (std::size_t i = 0; i < node_.saved.size(); ++i) {
      const SavedInput& slot = node_.saved[i];
      if (slot.role == role && slot.place == at(index)) return node_.unpack(slot, held_[i], attach_);
    }
    TESSERA_THROW(InvalidArgument, node_.name(), ": OpDef::saves must name what the gradient reads, got a read of ",
                  role == SavedInput::Role::kInput ? "input " : "output ", index);
  }

  OpNode& node_;
  std::span<Tensor> gradients_;
  bool attach_;
  mutable FixedArray<Tensor, 2> held_;  // unpacked values, by index in `saved`
};

void OpNode::differentiate(std::span<Tensor> gradients, bool attach) {
  TESSERA_CHECK_AS(NotSupported, op().def.gradient != nullptr, title(),
                   " has no gradient, but backward requires it; detach() its input or its result");
  OpGradient call(*this, gradients, attach);
  op().def.gradient(call);
}

const tensor::Storage* storage_of(const Tensor& tensor) {
  const Tensor local = tensor.local();
  return local ? &local.storage() : nullptr;
}

// A call that overwrites a tensor gives it a new history. This is correct only if no other tensor shares the memory and
// the old history.
void check_given(const Call& call, const Tensor& out) {
  bool is_input = false;
  for (const Tensor& input : call.inputs) is_input |= input.is_same(out);
  TESSERA_CHECK_CALL(call, is_input, "out of a recorded call must be one of its inputs, got ", tensor::describe(out),
                     "; omit it, or write under NoGrad");
  const AutogradState* state = state_of(out);
  TESSERA_CHECK_CALL(call, state == nullptr || !state->node->is_leaf, "cannot change ", tensor::describe(out),
                     " in place: it is a leaf that requires a gradient; use NoGrad");
  TESSERA_CHECK_CALL(call, state == nullptr || !state->is_view, "cannot change ", tensor::describe(out),
                     " in place: it is a view of a tensor that requires a gradient; clone it first");
  const tensor::Storage* storage = storage_of(out);
  TESSERA_CHECK_CALL(call, state != nullptr || storage == nullptr || storage->count() == 1,
                     "cannot record a change of ", tensor::describe(out),
                     " in place: other tensors share its memory, or a recorded call has saved it; clone it first");
}

const Tensor* first_tensor(const Call& call) {
  for (const Tensor& input : call.inputs) {
    if (input) return &input;
  }
  return nullptr;
}

void record(const Call& call) {
  bool has_given = false;
  for (const Tensor& out : call.outputs) {
    if (!out) continue;
    has_given = true;
    check_given(call, out);
  }
  auto* node = new OpNode(call);
  const NodeRef held = NodeRef::adopt(node);
  node->connect(call.inputs);
  if (node->op().def.gradient != nullptr) node->save_inputs(call);  // before the call can overwrite one of them
  {
    const NoGrad no_grad;
    KeptCalls* kept = KeptCalls::current();
    if (kept == nullptr || !kept->replay(call)) {
      tensor::call_below(tensor::HookKind::kAutograd, call);
      if (kept != nullptr) kept->note(call);
    }
  }
  bool is_differentiable_at_all = false;
  for (const Tensor& out : call.outputs) is_differentiable_at_all |= out && is_differentiable(out.dtype());
  if (!is_differentiable_at_all) return;
  if (const Tensor* first = first_tensor(call)) node->where = CallContext::of(*first);
  if (has_given) {
    for (const Tensor& out : call.outputs) {
      if (const AutogradState* old = state_of(out)) {
        old->node->overwritten.fetch_or(std::uint64_t{1} << old->output % 64, std::memory_order_relaxed);
      }
    }
  }
  node->produce(call.outputs, node->op().def.view != nullptr ? &call.inputs[0] : nullptr);
  if (node->op().def.gradient != nullptr) node->save_outputs(call);
}

[[maybe_unused]] const bool kIsInstalled = (tensor::set_hook(tensor::HookKind::kAutograd, record), true);

}  // namespace
}  // namespace tessera::autograd::detail
