#include "tessera/autograd/hooks.h"

#include <algorithm>
#include <atomic>

#include "tessera/autograd/detail/run.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::autograd {

using detail::AutogradState;
using detail::LeafNode;
using detail::Node;

namespace {

constinit thread_local const SavedHooksScope* innermost_hooks = nullptr;

const AutogradState& tracked(const Tensor& tensor, const char* what) {
  const AutogradState* state = tensor ? detail::state_of(tensor) : nullptr;
  TESSERA_CHECK(state != nullptr, what, ": tensor must require a gradient, got ", tensor::describe(tensor),
                "; call set_requires_grad() on a leaf");
  return *state;
}

}  // namespace

std::uint64_t detail::next_hook_id() {
  static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

SavedHooksScope::SavedHooksScope(SavedHooks hooks)
    : hooks_(std::make_shared<const SavedHooks>(std::move(hooks))), previous_(std::exchange(innermost_hooks, this)) {}
SavedHooksScope::SavedHooksScope(std::nullptr_t) : previous_(std::exchange(innermost_hooks, this)) {}
SavedHooksScope::~SavedHooksScope() { innermost_hooks = previous_; }
const std::shared_ptr<const SavedHooks>& SavedHooksScope::current() {
  static const std::shared_ptr<const SavedHooks> kNone;
  return innermost_hooks != nullptr ? innermost_hooks->hooks_ : kNone;
}

void set_saved_hooks(const Tensor& tensor, SavedHooks hooks) {
  (void)tracked(tensor, "set_saved_hooks");
  detail::state_of(tensor)->saved_hooks = std::make_shared<const SavedHooks>(std::move(hooks));
}

void HookHandle::remove() {
  if (remove_) std::exchange(remove_, nullptr)();
}

HookHandle on_gradient(const Tensor& tensor, GradientHook hook) {
  const AutogradState& state = tracked(tensor, "on_gradient");
  Node& node = *state.node;
  if (!node.hooks) node.hooks = std::make_unique<detail::NodeHooks>();
  auto& lists = node.hooks->by_output;
  auto list = std::ranges::find(lists, state.output, [](const auto& entry) { return entry.first; });
  if (list == lists.end()) list = lists.insert(list, {state.output, {}});
  const std::uint64_t id = detail::next_hook_id();
  list->second.emplace_back(id, std::move(hook));
  return HookHandle([held = state.node, id] {
    for (auto& entry : held->hooks->by_output) {
      std::erase_if(entry.second, [id](const auto& added) { return added.first == id; });
    }
  });
}

HookHandle on_gradient_ready(const Tensor& leaf, ReadyHook hook) {
  const AutogradState& state = tracked(leaf, "on_gradient_ready");
  TESSERA_CHECK(state.node->is_leaf, "on_gradient_ready: tensor must be a leaf, got ", tensor::describe(leaf),
                ", a result of ", state.node->title(), "; use on_gradient()");
  auto& node = static_cast<LeafNode&>(*state.node);
  const std::uint64_t id = detail::next_hook_id();
  const std::lock_guard lock(node.mutex);
  node.ready_hooks.emplace_back(id, std::move(hook));
  return HookHandle([held = state.node, id] {
    auto& of = static_cast<LeafNode&>(*held);
    const std::lock_guard guard(of.mutex);
    std::erase_if(of.ready_hooks, [id](const auto& added) { return added.first == id; });
  });
}

void at_end_of_run(std::function<void()> callback) { detail::BackwardRun::at_end(std::move(callback)); }

bool is_in_backward() { return detail::BackwardRun::current() != nullptr; }

std::string backward_of() {
  const Node* node = detail::BackwardRun::current();
  return node != nullptr ? node->title() : std::string();
}

namespace {
constinit GradientLayouts gradient_layouts;  // set during program start
}

void set_gradient_layouts(const GradientLayouts& layouts) { gradient_layouts = layouts; }

Tensor detail::placed(Tensor gradient, const layout::Layout& of) {
  if (gradient.layout() == of || gradient_layouts.place == nullptr) return gradient;
  return gradient_layouts.place(gradient, of);
}

Tensor detail::sum_of(const Tensor& a, const Tensor& b) {
  if (a.layout() == b.layout() || gradient_layouts.sum == nullptr) return ops::add(a, b);
  return gradient_layouts.sum(a, b);
}

}  // namespace tessera::autograd
