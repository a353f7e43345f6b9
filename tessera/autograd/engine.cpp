#include <algorithm>
#include <atomic>
#include <optional>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/run.h"
#include "tessera/tensor/gradient_moves.h"

namespace tessera::autograd::detail {
namespace {

constinit std::atomic<std::uint32_t> last_run = 0;
constinit thread_local BackwardRun* innermost = nullptr;

std::uint32_t next_run() {
  for (;;) {
    const std::uint32_t id = last_run.fetch_add(1, std::memory_order_relaxed) + 1;
    if (id != 0) return id;  // 0 means no run
  }
}

bool is_same(const Shape& a, const Shape& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = a[i] == b[i];
  return same;
}

// Returns true if an input is a partial min, max or product. A gradient
// that reads such an input needs its reduced value.
bool has_extreme_input(const Node& node) {
  return std::ranges::any_of(node.inputs, [](const OperandInfo& input) {
    return input.layout && std::ranges::any_of(input.layout.partials(), [](const layout::PartialAxis& partial) {
             return partial.reduction != Reduction::kSum && partial.reduction != Reduction::kAvg;
           });
  });
}

// Backward reads the graph once, long after it was written: its nodes are scattered and not in the caches. So the
// objects that a node refers to are prefetched step by step while earlier nodes run.
template <class T>
void fetch(const T* object) {
  constexpr std::size_t kLine = 64;
  const auto* at = reinterpret_cast<const char*>(object);
  for (std::size_t i = 0; i < sizeof(T); i += kLine) __builtin_prefetch(at + i);
}
void fetch_ahead(const std::vector<Node*>& nodes, std::size_t from) {
  if (from + 4 >= nodes.size()) return;
  fetch(nodes[from + 4]);
  for (const SavedInput& slot : nodes[from + 2]->saved) {
    if (slot.tensor) fetch(slot.tensor.state());
  }
  for (const SavedInput& slot : nodes[from + 1]->saved) {
    if (slot.tensor && slot.tensor.state()->storage) fetch(slot.tensor.state()->storage.get());
  }
}

// Allocations of a run have the label of the call whose gradient is computed.
struct LabelScope {
  LabelScope() = default;
  ~LabelScope() { memory::detail::current_label = before; }
  LabelScope(const LabelScope&) = delete;
  LabelScope& operator=(const LabelScope&) = delete;
  memory::LabelId before = memory::detail::current_label;
};

}  // namespace

BackwardRun::BackwardRun(bool retain_graph, bool create_graph)
    : id_(next_run()), retain_graph_(retain_graph), create_graph_(create_graph), outer_(innermost) {
  innermost = this;
}

BackwardRun::~BackwardRun() {
  innermost = outer_;
  for (; done_ < nodes_.size(); ++done_) {  // after an error
    for (OutputSlot& slot : nodes_[done_]->outputs) slot.grad = {};
    nodes_[done_]->has_capture = false;
    nodes_[done_]->run.store(0, std::memory_order_release);
  }
}

void BackwardRun::start_at(const Tensor& output, Tensor gradient) {
  const AutogradState& state = *state_of(output);
  const CallContext from = CallContext::of(gradient);
  roots_.push_back({{state.node, state.output}, std::move(gradient), from});
}

void BackwardRun::want(const Tensor& input) {
  const AutogradState& state = *state_of(input);
  captures_.push_back({state.node, state.output, {}});
  wants_some_ = true;
}

void BackwardRun::at_end(std::function<void()> callback) {
  TESSERA_CHECK(innermost != nullptr, "at_end_of_run: no backward run is active on this thread");
  BackwardRun* outermost = innermost;
  while (outermost->outer_ != nullptr) outermost = outermost->outer_;
  outermost->end_callbacks_.push_back(std::move(callback));
}

const Node* BackwardRun::current() {
  return innermost != nullptr && innermost->done_ < innermost->nodes_.size() ? innermost->nodes_[innermost->done_]
                                                                             : nullptr;
}

std::vector<Tensor> BackwardRun::execute() {
  {
    const tensor::GradModeScope mode(create_graph_);
    const LabelScope labels;
    reach_all();
    mark_needed();
    for (Root& root : roots_) serve(root.edge, std::move(root.gradient), root.from);
    run_all();
  }
  join_streams();
  for (std::size_t i = 0; i < end_callbacks_.size(); ++i) end_callbacks_[i]();
  std::vector<Tensor> results;
  for (WantedGradient& wanted : captures_) results.push_back(std::move(wanted.gradient));
  return results;
}

// Adds the target of an edge to its list, once.
void BackwardRun::reach(Edge& edge) {
  Node* node = edge.target.get();
  if (node == nullptr) return;
  if (!node->is_leaf) {
    std::uint32_t other = 0;
    if (node->run.compare_exchange_strong(other, id_, std::memory_order_acq_rel)) {
      nodes_.push_back(node);
    } else {
      TESSERA_CHECK(other == id_, node->title(),
                    ": another backward run uses this call; concurrent or nested runs require separate records");
    }
    return;
  }
  auto* leaf = static_cast<LeafNode*>(node);
  const std::uint64_t guess = leaf->run_and_slot.load(std::memory_order_relaxed);
  auto slot = static_cast<std::uint32_t>(guess);
  if (guess >> 32 != id_) {
    const auto [found, is_new] = leaf_slots_.try_emplace(node, static_cast<std::uint32_t>(leaves_.size()));
    if (is_new) leaves_.emplace_back().leaf = edge.target;
    slot = found->second;
    leaf->run_and_slot.store(std::uint64_t{id_} << 32 | slot, std::memory_order_relaxed);
  }
  ++leaves_[slot].edges_left;
  edge.leaf_slot = slot & 0x7fffffffU;
}

void BackwardRun::reach_all() {
  for (Root& root : roots_) reach(root.edge);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (Edge& edge : nodes_[i]->edges) reach(edge);
  }
  const auto is_newer = [](const Node* a, const Node* b) { return a->sequence > b->sequence; };
  if (!std::ranges::is_sorted(nodes_, is_newer)) std::ranges::stable_sort(nodes_, is_newer);
}

void BackwardRun::mark_needed() {
  if (!wants_some_) return;
  for (const WantedGradient& wanted : captures_) {
    if (!wanted.node->is_leaf) {
      if (wanted.node->run.load(std::memory_order_relaxed) == id_) wanted.node->has_capture = true;
    } else if (const auto slot = leaf_slots_.find(wanted.node.get()); slot != leaf_slots_.end()) {
      leaves_[slot->second].has_capture = true;
    }
  }
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = *nodes_[i];
    node.is_needed = false;
    for (Edge& edge : node.edges) {
      const Node* target = edge.target.get();
      edge.is_wanted = target != nullptr && (target->is_leaf ? leaves_[edge.leaf_slot].has_capture
                                                             : target->is_needed || target->has_capture);
      node.is_needed |= edge.is_wanted != 0;
    }
  }
}

void BackwardRun::run_all() {
  for (; done_ < nodes_.size(); ++done_) {
    fetch_ahead(nodes_, done_);
    Node& node = *nodes_[done_];
    run_node(node);
    node.has_capture = false;
    node.run.store(0, std::memory_order_release);
  }
}

void BackwardRun::run_node(Node& node) {
  bool has_gradient = false;
  for (const OutputSlot& slot : node.outputs) has_gradient |= static_cast<bool>(slot.grad);
  if (has_gradient) {
    enter(node.where);
    memory::detail::current_label = node.label;
    if (node.hooks || node.has_capture) [[unlikely]] {
      for (std::uint32_t i = 0; i < node.outputs.size(); ++i) {
        if (!node.outputs[i].grad) continue;
        if (node.hooks) node.run_hooks(i, node.outputs[i].grad);
        if (node.has_capture) capture(node, i, node.outputs[i].grad);
      }
    }
    if (!wants_some_ || node.is_needed) {
      differentiate(node);
      return;
    }
    for (OutputSlot& slot : node.outputs) slot.grad = {};
  }
  serve_all(node, {});
}

void BackwardRun::differentiate(Node& node) {
  TESSERA_CHECK(!node.is_consumed, node.title(),
                ": a previous backward run freed the saved tensors of this call; set retain_graph in the first run");
  if (!wants_some_) {
    for (Edge& edge : node.edges) edge.is_wanted = static_cast<bool>(edge.target);
  }
  FixedArray<Tensor, 4> gradients;
  gradients.init(node.edges.size());
  std::optional<tensor::GradientMoves> moves;
  if (has_extreme_input(node)) [[unlikely]]
    moves.emplace();
  node.differentiate(std::span(gradients.begin(), gradients.size()), create_graph_);
  for (OutputSlot& slot : node.outputs) slot.grad = {};
  if (!retain_graph_) node.consume();
  serve_all(node, std::span(gradients.begin(), gradients.size()));
}

// Passes on the gradients of the inputs of a node; an empty span if it
// received none. Leaves count the edges in both cases.
void BackwardRun::serve_all(Node& node, std::span<Tensor> gradients) {
  for (std::size_t i = 0; i < node.edges.size(); ++i) {
    Edge& edge = node.edges[i];
    if (!edge.target) continue;
    Tensor gradient;
    if (!gradients.empty() && edge.is_wanted) gradient = std::move(gradients[i]);
    if (gradient) {
      TESSERA_CHECK(is_same(gradient.shape(), node.inputs[i].shape) && gradient.dtype() == node.inputs[i].dtype,
                    node.title(), ": gradient of input ", i, " must be ", node.inputs[i].dtype, node.inputs[i].shape,
                    ", got ", tensor::describe(gradient));
      gradient = placed(std::move(gradient), node.inputs[i].layout);
    }
    serve(edge, std::move(gradient), node.where);
  }
}

void BackwardRun::serve(Edge& edge, Tensor gradient, const CallContext& from) {
  if (edge.target->is_leaf) {
    serve_leaf(leaves_[edge.leaf_slot], std::move(gradient), from);
    return;
  }
  if (!gradient) return;
  Node& target = *edge.target;
  order(from, target.where);
  Tensor& sum = target.outputs[edge.output].grad;
  if (!sum) {
    sum = std::move(gradient);
    return;
  }
  enter(target.where);
  sum = sum_of(sum, gradient);
}

void BackwardRun::serve_leaf(LeafUse& use, Tensor gradient, const CallContext& from) {
  if (gradient && (!wants_some_ || use.has_capture)) {
    if (!use.sum) {
      use.where = from;
      use.sum = std::move(gradient);
    } else {
      order(from, use.where);
      enter(use.where);
      use.sum = sum_of(use.sum, gradient);
    }
  }
  if (--use.edges_left == 0 && use.sum) finish_leaf(use);
}

bool BackwardRun::add_to_sum(const Edge& edge, const CallContext& from, const tensor::GradientCall::AddToSum& add) {
  BackwardRun& run = *innermost;
  if (run.create_graph_) return false;
  const auto add_to = [&](const Tensor& sum, const CallContext& where) {
    return from == where && is_held_once(sum) && add(sum);
  };
  if (!edge.target->is_leaf) {
    const Tensor& sum = edge.target->outputs[edge.output].grad;
    return sum && add_to(sum, edge.target->where);
  }
  LeafUse& use = run.leaves_[edge.leaf_slot];
  if (use.sum) return add_to(use.sum, use.where);
  // The gradient of earlier runs: if this is all that the run gives the leaf, and nothing looks at it by itself.
  if (run.wants_some_ || use.edges_left != 1 || use.leaf->hooks) return false;
  run.note_stream(from);
  return static_cast<LeafNode&>(*use.leaf).add_in_place(from, add);
}

void BackwardRun::finish_leaf(LeafUse& use) {
  enter(use.where);
  Tensor gradient = std::move(use.sum);
  if (use.leaf->hooks) use.leaf->run_hooks(0, gradient);
  if (use.has_capture) {
    capture(*use.leaf, 0, gradient);
    note_stream(use.where);
    return;
  }
  note_stream(use.where);
  static_cast<LeafNode&>(*use.leaf).accumulate(std::move(gradient), use.where, create_graph_);
}

void BackwardRun::capture(const Node& node, std::uint32_t output, const Tensor& gradient) {
  for (WantedGradient& wanted : captures_) {
    if (wanted.node.get() == &node && wanted.output == output) wanted.gradient = gradient;
  }
  if (!node.is_leaf) note_stream(node.where);
}

// Makes the stream of `where` current on its device.
void BackwardRun::enter(const CallContext& where) {
  if (where.context == nullptr || where == active_) return;
  scope_.reset();
  if (tensor::current_stream(where.context->device).state() != where.stream().state()) scope_.emplace(where.stream());
  active_ = where;
}

void BackwardRun::note_stream(const CallContext& where) {
  if (where.context != nullptr && std::ranges::find(result_streams_, where) == result_streams_.end()) {
    result_streams_.push_back(where);
  }
}

// Makes the streams of the caller wait for gradients written on other streams.
void BackwardRun::join_streams() {
  scope_.reset();
  active_ = {};
  for (const CallContext& where : result_streams_) {
    const device::Stream& now = tensor::current_stream(where.context->device);
    CallContext caller{where.context, {}};
    if (now.state() != where.context->default_stream.state()) caller.side = now;
    order(where, caller);
  }
}

}  // namespace tessera::autograd::detail
