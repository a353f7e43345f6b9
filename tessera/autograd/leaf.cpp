// Leaves: tensors that require gradients, and the accumulation of gradients.
#include <exception>
#include <utility>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/node.h"
#include "tessera/autograd/detail/run.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/tensor/overlap.h"

namespace tessera::autograd {
namespace detail {
namespace {

// Returns true if only `holders` handles of this file refer to the elements of a plain tensor.
bool is_only_ours(const Tensor& plain, std::uint32_t holders) {
  return plain.state()->count() == holders && plain.state()->storage->count() == 1 &&
         !tensor::detail::has_repeated_elements(plain);
}

// Returns a gradient that only the leaf holds, since it may be changed in place later (clipped, scaled, reduced).
Tensor owned(Tensor gradient) {
  if (is_held_once(gradient)) return gradient;
  const NoGrad no_grad;
  return ops::clone(gradient);
}

LeafNode* leaf_of(const Tensor& tensor, const char* what) {
  TESSERA_CHECK(tensor, what, ": tensor must not be empty, got an empty handle");
  const AutogradState* state = state_of(tensor);
  if (state == nullptr) return nullptr;
  TESSERA_CHECK(state->node->is_leaf, what, ": tensor must be a leaf, got ", tensor::describe(tensor), ", a result of ",
                state->node->title(), "; use gradients() for its gradient, or detach() it");
  return static_cast<LeafNode*>(state->node.get());
}

}  // namespace

bool is_held_once(const Tensor& gradient) {
  if (gradient.is_tracked()) return false;
  if (!gradient.has_layout()) return is_only_ours(gradient, 1);
  const Tensor local = gradient.local();  // held by it and by the whole
  return gradient.state()->count() == 1 && (!local || is_only_ours(local, 2));
}

LeafNode::LeafNode() { is_leaf = true; }

void LeafNode::differentiate(std::span<Tensor> /*gradients*/, bool /*attach*/) {}

void LeafNode::accumulate(Tensor gradient, const CallContext& on, bool create_graph) {
  if (!create_graph) gradient = owned(std::move(gradient));
  merge(std::move(gradient), on, true);
}

void LeafNode::merge(Tensor gradient, const CallContext& on, bool is_ready) {
  std::vector<std::pair<std::uint64_t, ReadyHook>> hooks_now;
  for (;;) {
    Tensor before;
    CallContext before_on;
    {
      const std::lock_guard lock(mutex);
      before = grad;
      before_on = written;
    }
    // The addition runs without the lock, since enqueuing work may block. If another thread adds to the same leaf
    // meanwhile, this thread starts again.
    Tensor after = gradient;
    if (before) {
      order(before_on, on);
      after = sum_of(before, gradient);
    }
    const std::lock_guard lock(mutex);
    if (!grad.is_same(before)) continue;
    grad = std::move(after);
    written = on;
    if (is_ready) hooks_now = ready_hooks;
    gradient = grad;
    break;
  }
  for (const auto& [id, hook] : hooks_now) hook(gradient);
}

bool LeafNode::add_in_place(const CallContext& on, const tensor::GradientCall::AddToSum& add) {
  Tensor sum;
  CallContext before_on;
  {
    const std::lock_guard lock(mutex);
    if (!grad || !is_held_once(grad)) return false;
    // Taken out, so that another thread that adds to the same leaf meanwhile does not see it change.
    sum = std::exchange(grad, {});
    before_on = written;
  }
  order(before_on, on);
  bool is_added = false;
  std::exception_ptr failure;
  try {
    is_added = add(sum);
  } catch (...) {
    failure = std::current_exception();
  }
  merge(std::move(sum), on, is_added);
  if (failure) std::rethrow_exception(failure);
  return is_added;
}

}  // namespace detail

using detail::AutogradState;
using detail::LeafNode;
using detail::NodeRef;

void set_requires_grad(const Tensor& tensor, bool requires_grad) {
  const LeafNode* leaf = detail::leaf_of(tensor, "set_requires_grad");
  TESSERA_CHECK(!requires_grad || detail::is_differentiable(tensor.dtype()),
                "set_requires_grad: tensor must be floating-point or complex, got ", tensor::describe(tensor));
  if ((leaf != nullptr) == requires_grad) return;
  std::unique_ptr<AutogradState> state;
  if (requires_grad) state = std::make_unique<AutogradState>(NodeRef::adopt(new LeafNode()), 0);
  tensor.set_gradient_state(std::move(state));
}

bool requires_grad(const Tensor& tensor) { return tensor && tensor.is_tracked(); }

bool is_leaf(const Tensor& tensor) {
  const AutogradState* state = detail::state_of(tensor);
  return state == nullptr || state->node->is_leaf;
}

Tensor grad(const Tensor& leaf) {
  LeafNode* node = detail::leaf_of(leaf, "grad");
  if (node == nullptr) return {};
  const std::lock_guard lock(node->mutex);
  return node->grad;
}

void set_grad(const Tensor& leaf, const Tensor& gradient) {
  LeafNode* node = detail::leaf_of(leaf, "set_grad");
  TESSERA_CHECK(node != nullptr, "set_grad: tensor must require a gradient, got ", tensor::describe(leaf),
                "; call set_requires_grad() on it");
  TESSERA_CHECK(!gradient || (gradient.shape() == leaf.shape() && gradient.dtype() == leaf.dtype()),
                "set_grad: gradient must have the shape and dtype of ", tensor::describe(leaf), ", got ",
                tensor::describe(gradient));
  detail::CallContext where = gradient ? detail::CallContext::of(gradient) : detail::CallContext();
  const std::lock_guard lock(node->mutex);
  node->grad = gradient;
  node->written = std::move(where);
}

}  // namespace tessera::autograd
