// One backward run. It finds all reachable nodes and sorts them, newest first. A node has a higher number than all
// nodes it depends on, so the gradients of its outputs are complete before it runs. Leaves are not in the list: a leaf
// is finished as soon as its last edge has been served.
//
// A node holds the number of the run while it is in the list, so that a second run through it is detected.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tessera/autograd/detail/node.h"
#include "tessera/tensor/op_def.h"

namespace tessera::autograd::detail {

/// A backward run, on the stack of the thread that runs it.
class BackwardRun {
 public:
  BackwardRun(bool retain_graph, bool create_graph);
  ~BackwardRun();
  BackwardRun(const BackwardRun&) = delete;
  BackwardRun& operator=(const BackwardRun&) = delete;

  /// Starts at `output` with gradient `gradient`.
  void start_at(const Tensor& output, Tensor gradient);
  /// Requests the gradient of `input`. The run then computes only requested gradients.
  void want(const Tensor& input);
  /// Runs backward. Returns the requested gradients in order, empty handles for those that received nothing.
  std::vector<Tensor> execute();
  /// Runs `callback` at the end of the outermost run of this thread.
  static void at_end(std::function<void()> callback);
  /// Returns the current node of the innermost run of this thread; null outside a run.
  static const Node* current();
  /// Offers `add` the sum that a gradient made by a call at `from` would be added to; see GradientCall::add_to_sum.
  static bool add_to_sum(const Edge& edge, const CallContext& from, const tensor::GradientCall::AddToSum& add);

 private:
  struct LeafUse {
    NodeRef leaf;
    std::uint32_t edges_left = 0;
    bool has_capture = false;
    Tensor sum;
    CallContext where;
  };
  struct WantedGradient {
    NodeRef node;
    std::uint32_t output;
    Tensor gradient;
  };
  struct Root {
    Edge edge;
    Tensor gradient;
    CallContext from;
  };

  void reach(Edge& edge);
  void reach_all();
  void mark_needed();
  void run_all();
  void run_node(Node& node);
  void differentiate(Node& node);
  void serve_all(Node& node, std::span<Tensor> gradients);
  void serve(Edge& edge, Tensor gradient, const CallContext& from);
  void serve_leaf(LeafUse& use, Tensor gradient, const CallContext& from);
  void finish_leaf(LeafUse& use);
  void capture(const Node& node, std::uint32_t output, const Tensor& gradient);
  void enter(const CallContext& where);
  void note_stream(const CallContext& where);
  void join_streams();

  std::uint32_t id_;
  bool retain_graph_;
  bool create_graph_;
  bool wants_some_ = false;
  std::vector<Root> roots_;
  std::vector<Node*> nodes_;
  std::size_t done_ = 0;  // number of finished nodes
  std::vector<LeafUse> leaves_;
  std::unordered_map<const Node*, std::uint32_t> leaf_slots_;
  std::vector<WantedGradient> captures_;
  std::vector<CallContext> result_streams_;  // streams that wrote gradients of leaves, or requested gradients
  std::optional<tensor::StreamScope> scope_;
  CallContext active_;  // current in scope_; no context: not set yet
  BackwardRun* outer_;
  std::vector<std::function<void()>> end_callbacks_;  // of an outermost run
};

}  // namespace tessera::autograd::detail
