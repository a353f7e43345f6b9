// One run of backward. It first finds all nodes that can be reached and sorts them, newest first; since a node has a
// higher number than all that it depends on, that order gives each node the whole gradient of its outputs before it is
// run. Leaves are not in the list: each is finished as soon as the last edge to it has been served.
//
// A node is marked with the run's number while it is in the list, so that a second run through it is seen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tessera/autograd/detail/node.h"
#include "tessera/tensor/op_def.h"

namespace tessera::autograd::detail {

/// See the head of this file. Lives on the stack of the thread that runs backward.
class Run {
 public:
  Run(bool retain_graph, bool create_graph);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Starts at `output`, whose gradient is `gradient`.
  void start_at(const Tensor& output, Tensor gradient);
  /// Wants the gradient of `input`, and of nothing else but what is wanted.
  void want(const Tensor& input);
  /// Runs. Afterwards, the gradients of what was wanted, in order; no tensors where nothing came.
  std::vector<Tensor> execute();
  /// Runs `callback` at the end of this thread's outermost run.
  static void at_end(std::function<void()> callback);
  /// The node that this thread's innermost run is at; null: none.
  static const Node* current();
  /// Offers `add` the sum that a gradient made by a call at `from` would be added to; see GradientCall::add_to_sum.
  static bool add_to_sum(const Edge& edge, const Where& from, const tensor::GradientCall::AddToSum& add);

 private:
  struct LeafUse {
    NodeRef leaf;
    std::uint32_t edges_left = 0;
    bool has_capture = false;
    Tensor sum;
    Where where;
  };
  struct Capture {
    NodeRef node;
    std::uint32_t output;
    Tensor gradient;
  };
  struct Root {
    Edge edge;
    Tensor gradient;
    Where from;
  };

  void reach(Edge& edge);
  void reach_all();
  void mark_needed();
  void run_all();
  void run_node(Node& node);
  void differentiate(Node& node);
  void serve_all(Node& node, std::span<Tensor> gradients);
  void serve(Edge& edge, Tensor gradient, const Where& from);
  void serve_leaf(LeafUse& use, Tensor gradient, const Where& from);
  void finish_leaf(LeafUse& use);
  void capture(const Node& node, std::uint32_t output, const Tensor& gradient);
  void enter(const Where& where);
  void note_stream(const Where& where);
  void join_streams();

  std::uint32_t id_;
  bool retain_graph_;
  bool create_graph_;
  bool wants_some_ = false;
  std::vector<Root> roots_;
  std::vector<Node*> nodes_;
  std::size_t done_ = 0;  // of the nodes
  std::vector<LeafUse> leaves_;
  std::unordered_map<const Node*, std::uint32_t> leaf_slots_;
  std::vector<Capture> captures_;
  std::vector<Where> result_streams_;  // where gradients of leaves, or wanted ones, were written
  std::optional<tensor::StreamScope> scope_;
  Where active_;  // what scope_ makes current; no context: nothing yet
  Run* outer_;
  std::vector<std::function<void()>> end_callbacks_;  // of an outermost run
};

}  // namespace tessera::autograd::detail
