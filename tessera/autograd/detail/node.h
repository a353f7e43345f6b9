// The graph: a node per recorded call, with an edge per input to the node that produced it, or to its leaf.
//
//   x (leaf) <---edge--- mul <---edge--- exp        gradients flow along the edges, from the newest node to the oldest
//
// A node holds no tensor that is its own result (a reference cycle): results are saved detached. A node has a higher
// number than all nodes it depends on, also across threads; a backward run follows this order only. A loop, not
// recursion, destroys the nodes that only a destroyed node held.
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
/// Deletes a node without references, and all nodes that only it held, without recursion.
void retire(Node* node) noexcept;

/// A handle to a node; the last handle retires it.
class NodeRef {
 public:
  NodeRef() noexcept = default;
  /// Takes over the initial reference of a new node.
  static NodeRef adopt(Node* node) noexcept {
    NodeRef ref;
    ref.node_ = node;
    return ref;
  }
  /// Returns a new handle.
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

/// A fixed number of T, up to N of them in place.
template <class T, std::size_t N>
class FixedArray {
 public:
  /// Default-constructs `size` elements. Call it once.
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

/// Target of a gradient: an output of the node that produced an input. No target: the gradient is not required.
struct Edge {
  NodeRef target;
  std::uint32_t output = 0;
  // State of the current run: index of the leaf in its list, and whether the run needs the gradient.
  std::uint32_t leaf_slot : 31 = 0;
  std::uint32_t is_wanted : 1 = 0;
};

/// Shape, dtype and layout of an operand.
struct OperandInfo {
  Shape shape;
  DType dtype = DType::kF32;
  layout::Layout layout;  // empty for a plain tensor
};
/// An output of a node and, in a run, the gradient accumulated for it.
struct OutputSlot : OperandInfo {
  Tensor grad;
};

/// A value packed by saved-tensor hooks.
struct Packed {
  std::shared_ptr<const SavedHooks> hooks;
  std::shared_ptr<void> value;
};

/// A tensor saved for the gradient.
struct SavedInput {
  enum class Role : std::uint8_t { kInput, kOutput, kOther };
  Tensor tensor;                             // empty if packed, or if the argument was omitted
  std::unique_ptr<Packed> packed;            // replaces `tensor`
  tensor::detail::Ref<tensor::Storage> pin;  // an extra reference to the storage of a tensor that is not packed
  std::uint64_t version = 0;                 // of the storage when the tensor was saved
  std::uint32_t place = 0;                   // index of the input or output
  Role role = Role::kOther;
};

/// The device and stream of a call. Without a context they are unknown, and nothing is ordered.
struct CallContext {
  const tensor::DeviceContext* context = nullptr;
  device::Stream side;  // empty for the default stream of the context

  /// Returns the current device and stream of this thread for the device of the tensor.
  static CallContext of(const Tensor& tensor);
  [[nodiscard]] const device::Stream& stream() const { return side ? side : context->default_stream; }
  friend bool operator==(const CallContext& a, const CallContext& b) {
    return a.context == b.context && a.side.state().get() == b.side.state().get();
  }
};

/// Makes work on `to` wait for the work enqueued on `from`. Does nothing if they are equal or unknown.
void order(const CallContext& from, const CallContext& to);

using GradientHooks = std::vector<std::pair<std::uint64_t, GradientHook>>;
/// Hooks on the gradients of the outputs of a node.
struct NodeHooks {
  std::vector<std::pair<std::uint32_t, GradientHooks>> by_output;
};

/// One recorded call, or a leaf.
class Node : public tensor::detail::Counted, public tensor::detail::Recycled {
 public:
  virtual ~Node();
  /// Returns the name of the operator.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Computes gradients of the inputs from those in `outputs`. With `attach`, saved tensors have their history, so that
  /// the gradient can be differentiated.
  virtual void differentiate(std::span<Tensor> gradients, bool attach) = 0;

  /// Adds edges for these inputs and takes the next number.
  void connect(std::span<const Tensor> inputs);
  /// Stores shapes and dtypes of the outputs, and attaches the differentiable
  /// ones to this node. Outputs of views are marked.
  void produce(std::span<Tensor> results, const Tensor* view_of);
  /// Saves a value in `into`, packed if hooks apply.
  void save(SavedInput& into, const Tensor& value, SavedInput::Role role, std::size_t place);
  /// Returns a saved value. Throws InvalidArgument if it was modified since.
  /// `held` keeps the value if it is not the saved one.
  const Tensor& unpack(const SavedInput& from, Tensor& held, bool attach);
  /// Frees the saved values; a second run is then an error.
  void consume() noexcept;
  /// Runs the hooks on the gradient of an output.
  void run_hooks(std::uint32_t output, Tensor& gradient);
  /// Returns "mul", or "mul (label 'encoder')".
  [[nodiscard]] std::string title() const;

  std::uint64_t sequence = 0;
  FixedArray<Edge, 2> edges;
  FixedArray<OperandInfo, 2> inputs;
  FixedArray<OutputSlot, 1> outputs;
  FixedArray<SavedInput, 2> saved;
  CallContext where;
  memory::LabelId label = 0;
  std::atomic<std::uint32_t> run{0};  // the run that includes the node; 0: none
  bool is_leaf = false;
  bool is_consumed = false;
  bool is_needed = false;                     // by the current run
  bool has_capture = false;                   // in the current run
  std::atomic<std::uint64_t> overwritten{0};  // a bit per output that a recorded call has overwritten
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

/// State of a leaf: its gradient. The tensor and all edges to it share the node, so several runs can reach it.
class LeafNode final : public Node {
 public:
  LeafNode();
  [[nodiscard]] std::string name() const override { return "leaf"; }
  void differentiate(std::span<Tensor> gradients, bool attach) override;
  /// Adds to the gradient on the current stream, which is `on`, then runs the ready hooks.
  void accumulate(Tensor gradient, const CallContext& on, bool create_graph);
  /// Lets `add` add to the gradient where it is stored, on the current stream, which is `on`; then runs the ready
  /// hooks. Returns false if no gradient exists, if anything else holds it, or if `add` returns false.
  bool add_in_place(const CallContext& on, const tensor::GradientCall::AddToSum& add);

  std::mutex mutex;  // protects the fields below
  Tensor grad;
  CallContext written;  // stream of the last write to the gradient
  std::vector<std::pair<std::uint64_t, ReadyHook>> ready_hooks;
  std::atomic<std::uint64_t> run_and_slot{0};  // hint for its index in the list of the latest run

 private:
  // Adds to the gradient, or stores the first one. Runs the ready hooks if `is_ready`.
  void merge(Tensor gradient, const CallContext& on, bool is_ready);
};

/// Autograd state of a tracked tensor.
class AutogradState final : public tensor::GradientState {
 public:
  AutogradState(NodeRef from, std::uint32_t index) : node(std::move(from)), output(index) { is_tracked = true; }
  NodeRef node;
  std::uint32_t output;
  bool is_view = false;
  NodeRef base;  // for a view of a tensor that is not a leaf: the node that produced that tensor
  std::uint32_t base_output = 0;
  std::shared_ptr<const SavedHooks> saved_hooks;  // set by set_saved_hooks()
};

/// Returns the autograd state of a tensor; null if it is untracked.
inline AutogradState* state_of(const Tensor& tensor) {
  return tensor.is_tracked() ? static_cast<AutogradState*>(tensor.gradient_state()) : nullptr;
}
/// Returns true if elements of this dtype have gradients.
inline bool is_differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }
/// Returns a new hook id.
std::uint64_t next_hook_id();

/// Returns the gradient for a tensor of this layout; see GradientLayouts.
Tensor placed(Tensor gradient, const layout::Layout& of);
/// Returns true if `gradient` is the only handle of its elements, so that they may change unseen.
bool is_held_once(const Tensor& gradient);
/// Returns the sum of two gradients of one tensor.
Tensor sum_of(const Tensor& a, const Tensor& b);

}  // namespace tessera::autograd::detail
