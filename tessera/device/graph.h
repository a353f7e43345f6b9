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

/// What a node does.
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
  kOther,        ///< something this version does not know; it can be replayed, not checked
};
/// "kernel", "host", ...
TESSERA_API std::string_view to_string(NodeKind kind);

/// What an edge promises.
enum class EdgeKind : std::uint8_t {
  kFull,  ///< the second node starts after the first has completed
  kWeak,  ///< the second node may start while the first still runs (programmatic launch): proves nothing
};
/// "full" or "weak".
TESSERA_API std::string_view to_string(EdgeKind kind);

/// A node on which something depends, and how.
struct Dependency {
  NodeId node;                      ///< the earlier node
  EdgeKind kind = EdgeKind::kFull;  ///< what the edge promises
  /// Same node, same promise.
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

/// Edges that come in at one place; four or fewer need no allocation.
using Dependencies = SmallVector<Dependency, 4>;

/// One node of a graph.
struct NodeInfo {
  NodeId id;                           ///< unique in its graph
  NodeKind kind = NodeKind::kOther;    ///< what it does
  std::string label;                   ///< the launch's label, or the kernel's name
  std::vector<Access> accesses;        ///< what it declared to touch (checked devices keep it)
  bool has_declared_accesses = false;  ///< whether it declared anything (likewise)
  Dependencies dependencies;           ///< its incoming edges
};

/// Where a capture stands on one stream.
struct CaptureInfo {
  CaptureId id;               ///< the capture; 0: this stream is not capturing
  Dependencies dependencies;  ///< what the next captured operation will depend on
  /// What Stream::set_capture_dependencies took out of `dependencies` since this stream joined the capture: what it
  /// captured up to there need not come before its next operation. Never shrinks while the capture lasts.
  Dependencies dropped = {};
};

/// Whether a graph could be put into an executable made from another, and if not, why not.
struct UpdateResult {
  bool updated = false;     ///< false: the executable is unchanged
  std::string reason = {};  ///< why not; names the node
};

class GraphExec;

/// How a graph is made executable.
struct InstantiateOptions {
  /// Whether a host replay may use several threads. kAuto does where a measured replay showed that it pays.
  enum class Parallel : std::uint8_t { kAuto, kNever, kAlways };
  Parallel parallel = Parallel::kAuto;  ///< ignored by devices that decide for themselves
};

/// Captured work: a directed acyclic graph. A shared handle. Thread-safe.
class TESSERA_API Graph {
 public:
  /// No graph.
  Graph() = default;
  /// Made by Stream::end_capture.
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  /// Whether there is a graph.
  explicit operator bool() const { return state_ != nullptr; }

  /// All nodes with their incoming edges, every node after what it depends on.
  [[nodiscard]] std::vector<NodeInfo> nodes() const;
  /// A drawing for Graphviz.
  [[nodiscard]] std::string to_dot() const;
  /// {"nodes": [{"id", "kind", "label", "dependencies": [{"node", "kind"}]}]}
  [[nodiscard]] std::string to_json() const;
  /// A graph of its own with the same nodes and edges.
  [[nodiscard]] Graph clone() const;
  /// Makes it executable. The executable keeps what the nodes captured, but not the memory they touch.
  [[nodiscard]] GraphExec instantiate(InstantiateOptions options = {}) const;
  /// Destroys the handle; using it afterwards is an error.
  void reset() { state_.reset(); }
  /// The shared state.
  [[nodiscard]] const std::shared_ptr<GraphState>& state() const { return state_; }

 private:
  std::shared_ptr<GraphState> state_;
};

/// An executable graph. A shared handle. Launches of one executable run one after the other, whatever their streams.
class TESSERA_API GraphExec {
 public:
  /// No executable.
  GraphExec() = default;
  /// Made by Graph::instantiate.
  explicit GraphExec(std::shared_ptr<GraphExecState> state) : state_(std::move(state)) {}
  /// Whether there is an executable.
  explicit operator bool() const { return state_ != nullptr; }

  /// Replays the graph on `stream`; on a capturing stream it becomes a node of that capture.
  void launch(const Stream& stream) const;
  /// Replaces the work of the nodes by that of a graph of the same shape; launches made before are not touched.
  [[nodiscard]] UpdateResult update(const Graph& graph) const;
  /// Destroys the handle; launching it afterwards is an error. Launches made before run to their end.
  void reset() { state_.reset(); }
  /// The shared state.
  [[nodiscard]] const std::shared_ptr<GraphExecState>& state() const { return state_; }

 private:
  std::shared_ptr<GraphExecState> state_;
};

}  // namespace tessera::device
