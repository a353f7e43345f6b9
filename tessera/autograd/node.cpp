#include <algorithm>
#include <array>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/node.h"

namespace tessera::autograd::detail {
namespace {

// Nodes of this thread without references. The first retire() deletes all in a
// loop, including those that deleted nodes release.
constinit thread_local Node* retired = nullptr;
constinit thread_local bool is_retiring = false;

// The highest sequence number that this thread has assigned.
constinit thread_local std::uint64_t last_sequence = 0;

// Outside the mesh, a rank holds nothing that could change.
std::uint64_t version_of(const Tensor& tensor) { return tensor.has_layout() && !tensor.local() ? 0 : tensor.version(); }

tensor::detail::Ref<tensor::Storage> storage_of(const Tensor& local) {
  return local ? local.state()->storage : tensor::detail::Ref<tensor::Storage>();
}

void refuse_stale_view(const Node& node, const AutogradState& view) {
  TESSERA_CHECK(view.base->overwritten.load(std::memory_order_relaxed) >> (view.base_output % 64) % 2 == 0, node.name(),
                ": an input is a view of a result of ", view.base->title(),
                " that was changed in place after the view was created; create the view again");
}

}  // namespace

void retire(Node* node) noexcept {
  node->next_retired = retired;
  retired = node;
  if (is_retiring) return;
  is_retiring = true;
  while (retired != nullptr) {
    Node* next = retired;
    retired = next->next_retired;
    delete next;
  }
  is_retiring = false;
}

CallContext CallContext::of(const Tensor& tensor) {
  if (tensor.has_layout() && !tensor.local()) return {};
  const tensor::CurrentDevice now = tensor::current_device(tensor.device());
  CallContext where{now.context, {}};
  if (now.stream->state() != now.context->default_stream.state()) where.side = *now.stream;
  return where;
}

void order(const CallContext& from, const CallContext& to) {
  if (from.context == nullptr || to.context == nullptr || from == to) return;
  const device::Event event = from.context->device.create_event();
  from.stream().record(event);
  to.stream().wait(event);
}

Node::~Node() = default;

void Node::connect(std::span<const Tensor> tensors) {
  edges.init(tensors.size());
  inputs.init(tensors.size());
  std::uint64_t highest = last_sequence;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) continue;
    inputs[i].shape = tensors[i].shape();
    inputs[i].dtype = tensors[i].dtype();
    if (tensors[i].has_layout()) inputs[i].layout = tensors[i].layout();
    const AutogradState* state = state_of(tensors[i]);
    if (state == nullptr) continue;
    if (state->base) refuse_stale_view(*this, *state);
    edges[i].target = state->node;
    edges[i].output = state->output;
    highest = std::max(highest, state->node->sequence);
  }
  sequence = last_sequence = highest + 1;
  label = memory::detail::current_label;
}

void Node::produce(std::span<Tensor> results, const Tensor* view_of) {
  outputs.init(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    Tensor& result = results[i];
    if (!result) continue;
    outputs[i].shape = result.shape();
    outputs[i].dtype = result.dtype();
    if (!is_differentiable(result.dtype())) continue;
    auto state = std::make_unique<AutogradState>(NodeRef::share(this), static_cast<std::uint32_t>(i));
    if (view_of != nullptr) {
      state->is_view = true;
      if (const AutogradState* of = state_of(*view_of); of != nullptr && of->is_view) {
        state->base = of->base;
        state->base_output = of->base_output;
      } else if (of != nullptr && !of->node->is_leaf) {
        state->base = of->node;
        state->base_output = of->output;
      }
      if (result.is_same(*view_of))
        result = result.detach();  // a view may be the tensor itself, which has its own history
    }
    result.set_gradient_state(std::move(state));
  }
}

void Node::save(SavedInput& into, const Tensor& value, SavedInput::Role role, std::size_t place) {
  into.role = role;
  into.place = static_cast<std::uint32_t>(place);
  if (!value) return;
  // An in-place call may turn an intermediate result into the result of a call that depends on this one. Saved
  // unchanged, it would form a reference cycle. In-place calls on leaves throw, as do those on unrecorded tensors while
  // their storage is pinned here.
  const AutogradState* state = state_of(value);
  const bool is_kept_as_it_is = role == SavedInput::Role::kInput && (state == nullptr || state->node->is_leaf);
  Tensor kept = is_kept_as_it_is ? value : value.detach();
  const bool has_hooks = state != nullptr && state->saved_hooks != nullptr;
  if (const auto packing = has_hooks ? state->saved_hooks : SavedHooksScope::current()) {
    const SavedHooksScope none(nullptr);
    const NoGrad no_grad;
    into.packed = std::make_unique<Packed>(Packed{packing, packing->pack(kept)});
    return;
  }
  into.version = version_of(kept);
  if (is_kept_as_it_is) into.pin = kept.has_layout() ? storage_of(kept.local()) : kept.state()->storage;
  into.tensor = std::move(kept);
}

const Tensor& Node::unpack(const SavedInput& from, Tensor& held, bool attach) {
  if (held) return held;
  const std::uint32_t place = from.place;
  if (from.packed) {
    {
      const SavedHooksScope none(nullptr);
      const NoGrad no_grad;
      held = from.packed->hooks->unpack(from.packed->value);
    }
    const OperandInfo* was = from.role == SavedInput::Role::kInput    ? &inputs[place]
                             : from.role == SavedInput::Role::kOutput ? &outputs[place]
                                                                      : nullptr;
    TESSERA_CHECK(held, title(), ": the unpack hook of saved tensors must return a tensor, got an empty handle");
    TESSERA_CHECK(was == nullptr || (held.shape() == was->shape && held.dtype() == was->dtype), title(),
                  ": the unpack hook must return a saved tensor of ", was->dtype, was->shape, ", got ",
                  tensor::describe(held));
  } else {
    if (!from.tensor) return from.tensor;
    const std::uint64_t now = version_of(from.tensor);
    TESSERA_CHECK(now == from.version, title(), ": ",
                  from.role == SavedInput::Role::kOutput ? "its result " : "its input ", tensor::describe(from.tensor),
                  ", saved at version ", from.version, ", was changed in place before backward and is at version ", now,
                  "; clone it before changing it");
    if (!attach) return from.tensor;
    held = from.tensor;
  }
  if (!attach || !is_differentiable(held.dtype())) return held;
  // The history is that at the time of saving, whatever happened to the tensor since.
  if (from.role == SavedInput::Role::kOutput) {
    held = held.detach();
    held.set_gradient_state(std::make_unique<AutogradState>(NodeRef::share(this), place));
  } else if (from.role == SavedInput::Role::kInput && edges[place].target) {
    held = held.detach();
    held.set_gradient_state(std::make_unique<AutogradState>(edges[place].target, edges[place].output));
  }
  return held;
}

void Node::consume() noexcept {
  is_consumed = true;
  for (SavedInput& slot : saved) {
    slot.tensor = {};
    slot.pin = {};
    slot.packed.reset();
  }
}

void Node::run_hooks(std::uint32_t output, Tensor& gradient) {
  for (const auto& [of, list] : hooks->by_output) {
    if (of != output) continue;
    for (std::size_t i = 0; i < list.size(); ++i) {
      Tensor changed = list[i].second(gradient);
      if (!changed) continue;
      TESSERA_CHECK(changed.shape() == gradient.shape() && changed.dtype() == gradient.dtype(),
                    "a hook on a gradient of ", title(), " must keep shape and dtype of ", tensor::describe(gradient),
                    ", got ", tensor::describe(changed));
      gradient = std::move(changed);
    }
    return;
  }
}

std::string Node::title() const {
  return label == 0 ? name() : name() + " (label '" + memory::Label::text_of(label) + "')";
}

}  // namespace tessera::autograd::detail
