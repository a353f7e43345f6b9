// The tape: a node per recorded call, with an edge for every input to the node that made it or to the leaf that it is.
//
//   x (leaf) <---edge--- mul <---edge--- exp        gradients flow along the edges, from the newest node to the oldest
//
// A node knows no tensor that is its own result (that would be a circle): a result it saves is kept detached. Nodes are
// numbered so that one has a higher number than all that it depends on, also across threads; that order alone is
// the order of a backward run. Destroying a node destroys what only it holds in a loop, never by recursion.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/autograd/hooks.h"
#include "tessera/memory/label.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/op_def.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd::detail {

class Node;
/// Deletes a node that nobody holds, and all that only it held, without recursion.
void retire(Node* node) noexcept;

/// A handle of a node; the last one retires it.
class NodeRef {
 public:
  NodeRef() noexcept = default;
  /// Takes over the count a new node starts with.
  static NodeRef adopt(Node* node) noexcept {
    NodeRef ref;
    ref.node_ = node;
    return ref;
  }
  /// One more handle.
  static NodeRef share(Node* node) noexcept;
  NodeRef(const NodeRef& other) noexcept : NodeRef(share(other.node_)) {}
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef();
  [[nodiscard]] Node* get() const noexcept { return node_; }
  Node* operator->() const noexcept { return node_; }
  Node& operator*() const noexcept { return *node_; }
  explicit operator bool() const noexcept { return node_ != nullptr; }

 private:
  Node* node_ = nullptr;
};

/// As many T as said once, up to N of them in place.
template <class T, std::size_t N>
class FixedArray {
 public:
  /// Makes them, default-constructed; called once.
  void init(std::size_t size) {
    size_ = size;
    if (size > N) heap_ = std::make_unique<T[]>(size);
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* begin() { return heap_ ? heap_.get() : inline_; }
  [[nodiscard]] T* end() { return begin() + size_; }
  [[nodiscard]] const T* begin() const { return heap_ ? heap_.get() : inline_; }
  [[nodiscard]] const T* end() const { return begin() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) { return begin()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return begin()[i]; }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<T[]> heap_;
  T inline_[N] = {};
};

/// Where a gradient goes: an output of the node that made an input. No target: nobody wants it.
struct Edge {
  NodeRef target;
  std::uint32_t output = 0;
  // Of the run under way: the leaf's place in its list, and whether the run wants the gradient.
  std::uint32_t leaf_slot : 31 = 0;
  std::uint32_t is_wanted : 1 = 0;
};

/// What an operand was.
struct OperandInfo {
  Shape shape;
  DType dtype = DType::kF32;
  layout::Layout layout;  // empty: a plain one
};
/// An output of a node, and in a run the gradient that has come in for it.
struct OutputSlot : OperandInfo {
  Tensor grad;
};

/// A value that saved-value hooks packed.
struct Packed {
  std::shared_ptr<const SavedHooks> hooks;
  std::shared_ptr<void> value;
};

/// A tensor kept for the gradient.
struct Saved {
  enum class Role : std::uint8_t { kInput, kOutput, kOther };
  Tensor tensor;                             // no tensor when packed, or an argument left out
  std::unique_ptr<Packed> packed;            // instead of it
  tensor::detail::Ref<tensor::Storage> pin;  // one holder more of the storage of a tensor that is kept as it is
  std::uint64_t version = 0;                 // of the tensor's storage when it was saved
  std::uint32_t place = 0;                   // which input or output
  Role role = Role::kOther;
};

/// The device and stream of a call. No context: not known, and nothing to order.
struct Where {
  const tensor::DeviceContext* context = nullptr;
  device::Stream side;  // none: the context's default stream

  /// Where calls of this thread on the tensor's device go now.
  static Where of(const Tensor& tensor);
  [[nodiscard]] const device::Stream& stream() const { return side ? side : context->default_stream; }
  friend bool operator==(const Where& a, const Where& b) {
    return a.context == b.context && a.side.state().get() == b.side.state().get();
  }
};

/// Makes work on `to` wait for what is on `from` now. Nothing to do where they are the same or not known.
void order(const Where& from, const Where& to);

using GradientHooks = std::vector<std::pair<std::uint64_t, GradientHook>>;
/// Hooks on the gradients of a node's outputs.
struct NodeHooks {
  std::vector<std::pair<std::uint32_t, GradientHooks>> by_output;
};

/// One recorded call, or a leaf.
class Node : public tensor::detail::Counted, public tensor::detail::Recycled {
 public:
  virtual ~Node();
  /// Of the operator.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Gives gradients of inputs, from those of the outputs (in `outputs`). With `attach` what was saved is given back
  /// with its history, so that the gradient can be differentiated itself.
  virtual void differentiate(std::span<Tensor> gradients, bool attach) = 0;

  /// Adds edges for these inputs, and takes the next number.
  void connect(std::span<const Tensor> inputs);
  /// Notes what the outputs are and makes the floating ones its own. A view's are marked as such.
  void produce(std::span<Tensor> results, const Tensor* view_of);
  /// Takes a value over into `into`, packing it when hooks say so.
  void save(Saved& into, const Tensor& value, Saved::Role role, std::size_t place);
  /// A saved value; InvalidArgument when it was changed since. `held` keeps it where it is not the one saved.
  const Tensor& unpack(const Saved& from, Tensor& held, bool attach);
  /// Lets go of what was saved: a second run is an error.
  void consume() noexcept;
  /// Runs the hooks on the gradient of an output.
  void run_hooks(std::uint32_t output, Tensor& gradient);
  /// "mul", or "mul (label 'encoder')".
  [[nodiscard]] std::string title() const;

  std::uint64_t sequence = 0;
  FixedArray<Edge, 2> edges;
  FixedArray<OperandInfo, 2> inputs;
  FixedArray<OutputSlot, 1> outputs;
  FixedArray<Saved, 2> saved;
  Where where;
  memory::LabelId label = 0;
  std::atomic<std::uint32_t> run{0};  // the run that goes through it; 0: none
  bool is_leaf = false;
  bool is_consumed = false;
  bool is_needed = false;                     // of the run under way
  bool has_capture = false;                   // likewise
  std::atomic<std::uint64_t> overwritten{0};  // a bit for each output that a recorded call wrote over
  std::unique_ptr<NodeHooks> hooks;
  Node* next_retired = nullptr;
};

inline NodeRef NodeRef::share(Node* node) noexcept {
  if (node != nullptr) node->retain();
  return adopt(node);
}
inline NodeRef::~NodeRef() {
  if (node_ != nullptr && node_->release()) retire(node_);
}

/// What a leaf keeps: its gradient. Shared by the tensor and by the edges to it, so it can be reached by several runs.
class LeafNode final : public Node {
 public:
  LeafNode();
  [[nodiscard]] std::string name() const override { return "leaf"; }
  void differentiate(std::span<Tensor> gradients, bool attach) override;
  /// Adds to the gradient, on the current stream, which is `on`; then runs the ready hooks.
  void accumulate(Tensor gradient, const Where& on, bool create_graph);
  /// Lets `add` add to the gradient where it is stored, on the current stream, which is `on`; then runs the ready
  /// hooks. Returns false if no gradient exists, if anything else holds it, or if `add` returns false.
  bool add_in_place(const Where& on, const tensor::GradientCall::AddToSum& add);

  std::mutex mutex;  // for all below
  Tensor grad;
  Where written;  // where the gradient was written last
  std::vector<std::pair<std::uint64_t, ReadyHook>> ready_hooks;
  std::atomic<std::uint64_t> run_and_slot{0};  // a guess at its place in the latest run's list

 private:
  // Adds to the gradient; what is given becomes it if none exists. Then runs the ready hooks, if they are to run.
  void merge(Tensor gradient, const Where& on, bool is_ready);
};

/// What hangs on a tracked tensor.
class State final : public tensor::GradientState {
 public:
  State(NodeRef from, std::uint32_t index) : node(std::move(from)), output(index) { is_tracked = true; }
  NodeRef node;
  std::uint32_t output;
  bool is_view = false;
  NodeRef base;  // of a view of a tensor that is no leaf: what made that tensor
  std::uint32_t base_output = 0;
  std::shared_ptr<const SavedHooks> saved_hooks;  // of set_saved_hooks
};

/// What hangs on a tensor; null for an untracked one.
inline State* state_of(const Tensor& tensor) {
  return tensor.is_tracked() ? static_cast<State*>(tensor.gradient_state()) : nullptr;
}
/// Whether gradients of such elements exist.
inline bool is_differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }
/// A number for a hook.
std::uint64_t next_hook_id();

/// A gradient as it goes on to a tensor of this layout; see GradientLayouts.
Tensor placed(Tensor gradient, const layout::Layout& of);
/// Returns true if `gradient` is the only handle of its elements, so that they may change unseen.
bool is_held_once(const Tensor& gradient);
/// The sum of two gradients of one tensor.
Tensor sum_of(const Tensor& a, const Tensor& b);

}  // namespace tessera::autograd::detail
