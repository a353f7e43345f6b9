// Graphs: work captured from streams, inspected, instantiated and replayed.
//
//   capture           Graph                 GraphExec
//   begin ... end --> nodes, edges  --> instantiate --> launch, launch, ...
//                     DOT, JSON, clone      ^  update(graph of the same shape)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/base/small_vector.h"
#include "tessera/device/launch.h"

namespace tessera::device {

class Stream;
struct GraphState;
struct GraphExecState;

/// Kinds of nodes.
enum class NodeKind : std::uint8_t {
  kKernel,       ///< launches a kernel
  kHost,         ///< runs a host function
  kCopy,         ///< copies bytes
  kFill,         ///< fills bytes
  kEmpty,        ///< joins edges
  kEventRecord,  ///< records an event that is visible outside the graph
  kEventWait,    ///< waits for an event recorded outside the graph
  kGraph,        ///< runs another graph
  kMemoryValue,  ///< writes a value to memory or waits for one
  kOther,        ///< unknown to this version; it can be replayed but not checked
};
/// Returns the name: "kernel", "host", ...
TESSERA_API std::string_view to_string(NodeKind kind);

/// The order that an edge guarantees.
enum class EdgeKind : std::uint8_t {
  kFull,  ///< the second node starts after the first has completed
  kWeak,  ///< the second node may start while the first still runs (programmatic launch); guarantees no order
};
/// Returns "full" or "weak".
TESSERA_API std::string_view to_string(EdgeKind kind);

/// An incoming edge of a node.
struct Dependency {
  NodeId node;                      ///< the earlier node
  EdgeKind kind = EdgeKind::kFull;  ///< order that the edge guarantees
  /// Returns true if node and kind are equal.
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

/// Incoming edges of one node; up to four need no allocation.
using Dependencies = SmallVector<Dependency, 4>;

/// One node of a graph.
struct NodeInfo {
  NodeId id;                           ///< unique in its graph
  NodeKind kind = NodeKind::kOther;    ///< kind of the node
  std::string label;                   ///< label of the launch, or name of the kernel
  std::vector<Access> accesses;        ///< declared accesses; stored by checked devices only
  bool has_declared_accesses = false;  ///< true if it declared accesses; stored by checked devices only
  Dependencies dependencies;           ///< incoming edges
};

/// The capture state of one stream.
struct CaptureInfo {
  CaptureId id;               ///< id of the capture; 0 if this stream is not capturing
  Dependencies dependencies;  ///< dependencies of the next captured operation
  /// Dependencies that Stream::set_capture_dependencies has removed since this stream joined the capture. The next
  /// operation of the stream need not run after them. Never shrinks during the capture.
  Dependencies dropped = {};
};

/// Result of GraphExec::update.
struct UpdateResult {
  bool updated = false;     ///< if false, the executable is unchanged
  std::string reason = {};  ///< reason of a failed update; names the node
};

class GraphExec;

/// Options of Graph::instantiate.
struct InstantiateOptions {
  /// Use of several threads by host replays. kAuto uses them if a measured replay was faster with them.
  enum class Parallel : std::uint8_t { kAuto, kNever, kAlways };
  Parallel parallel = Parallel::kAuto;  ///< host only; ignored by other devices
};

/// Captured work: a directed acyclic graph. Copies share the graph. Thread-safe.
class TESSERA_API Graph {
 public:
  /// Constructs an empty handle.
  Graph() = default;
  /// Constructs a handle. Called by Stream::end_capture.
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to a graph.
  explicit operator bool() const { return state_ != nullptr; }

  /// Returns all nodes with their incoming edges, in topological order.
  [[nodiscard]] std::vector<NodeInfo> nodes() const;
  /// Returns the graph in the DOT language of Graphviz.
  [[nodiscard]] std::string to_dot() const;
  /// Returns {"nodes": [{"id", "kind", "label", "dependencies": [{"node", "kind"}]}]}.
  [[nodiscard]] std::string to_json() const;
  /// Returns an independent graph with the same nodes and edges.
  [[nodiscard]] Graph clone() const;
  /// Creates an executable graph. It keeps the captures of the nodes alive, but not the memory they access.
  [[nodiscard]] GraphExec instantiate(InstantiateOptions options = {}) const;
  /// Releases this handle, which must not be used afterwards.
  void reset() { state_.reset(); }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<GraphState>& state() const { return state_; }

 private:
  std::shared_ptr<GraphState> state_;
};

/// An executable graph. Copies share it. Launches of one executable run one after the other, even on different streams.
class TESSERA_API GraphExec {
 public:
  /// Constructs an empty handle.
  GraphExec() = default;
  /// Constructs a handle. Called by Graph::instantiate.
  explicit GraphExec(std::shared_ptr<GraphExecState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to an executable graph.
  explicit operator bool() const { return state_ != nullptr; }

  /// Replays the graph on `stream`. On a capturing stream it becomes a node of that capture.
  void launch(const Stream& stream) const;
  /// Replaces the work of the nodes by that of a graph of the same shape. Earlier launches are not affected.
  [[nodiscard]] UpdateResult update(const Graph& graph) const;
  /// Releases this handle, which must not be launched afterwards. Earlier launches complete.
  void reset() { state_.reset(); }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<GraphExecState>& state() const { return state_; }

 private:
  std::shared_ptr<GraphExecState> state_;
};

}  // namespace tessera::device
