// The reuse prover: while a graph is captured, decides whether a stream may reuse a block freed earlier in the capture.
//
//   at free    for each stream that used the block: advance(stream, set of the driver), mark(stream, marks)
//   at alloc   advance(stream, set of the driver); proves(stream, marks): the last uses of the block have completed
//
// A node certainly completes before the next captured operation of a stream iff a path of full edges leads from it to
// the dependency set of the stream and that entry of the set is full too. Weak edges (programmatic launches) prove
// nothing. The set of such nodes, called proven, is stored as one bit per node and stream. It grows as the dependency
// set moves forward, and each node is walked once. If the set changes in another way, it is computed again.
//
//   k1 --full--> k2 --weak--> k3        dependency set {k3}: proven k3 alone; marks {k3, k2} (k2 covers k1)
//
// The prover does not know which nodes used a block, so marks cover everything captured on the stream: all nodes with
// any path to a dependency set passed to advance() or replaced(), and those sets themselves. Nodes that are captured
// and replaced between two calls without notice are unknown. Pure: no device call, no lock, not thread-safe. One object
// for one capture at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/device/graph.h"

namespace tessera::memory::detail {

/// Nodes that must be complete, unique and sorted. Up to four need no allocation.
class Marks {
 public:
  using value_type = NodeId;             ///< Element type.
  using const_iterator = const NodeId*;  ///< For loops and matchers.
  /// Adds a node unless it is present.
  void add(NodeId node);
  /// Returns true if there are no nodes to wait for.
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// Returns the number of nodes.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns the lowest node.
  [[nodiscard]] const NodeId* begin() const { return size_ <= kInline ? few_.data() : many_.data(); }
  /// Returns the end.
  [[nodiscard]] const NodeId* end() const { return begin() + size_; }
  /// Removes all nodes.
  void clear() {
    size_ = 0;
    many_.clear();
  }

 private:
  static constexpr std::size_t kInline = 4;
  std::array<NodeId, kInline> few_{};
  std::size_t size_ = 0;
  std::vector<NodeId> many_;  // all nodes, if there are more than kInline
};

/// A point in the history of a CaptureOrder: the number of changes of dependency sets.
using CaptureMoment = std::uint64_t;

/// Order of the nodes of one capture.
class CaptureOrder {
 public:
  /// Appends the incoming edges of a node, from the driver. Called once per node (per 64 streams); the edges must not
  /// change afterwards. May throw: the advanced stream is then lost, nothing is proven for it, and mark() throws.
  using Predecessors = std::function<void(NodeId node, std::vector<device::Dependency>& out)>;

  /// Starts with an empty capture.
  explicit CaptureOrder(Predecessors predecessors);
  ~CaptureOrder();
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;

  /// Discards the capture for another one. Keeps its memory, which saves most of the cost of a capture.
  void reset();

  /// Sets the dependency set of the next captured operation of `stream`, as the driver reports it now. Must be called
  /// before mark() and proves() for that stream. Returns true if the set changed since the last call; otherwise
  /// proves() has no new answers.
  bool advance(StreamId stream, std::span<const device::Dependency> next);
  /// Records that an observed call replaced the dependencies of the stream, which were `before`. Later marks still
  /// cover earlier work of the stream.
  void replaced(StreamId stream, std::span<const device::Dependency> before);

  /// Returns the current point. Taken at an allocation, it excludes earlier work from the marks of the block (see
  /// mark).
  [[nodiscard]] CaptureMoment now() const { return now_; }
  /// Adds the nodes that must complete before everything captured on `stream` is over: the dependency set, the sources
  /// of weak edges before it, and replaced dependencies. Of the last two, only those found after `since`, the
  /// allocation of the block: earlier work cannot have used it, and the marks still cover everything that was proven
  /// for `stream` at that point, hence earlier uses of the block too. Without `since`, one overlapping launch, which
  /// nothing ever proves complete, would prevent all later reuse on the stream.
  void mark(StreamId stream, Marks& marks, CaptureMoment since = 0) const;
  /// Returns true if all marks certainly complete before the next captured operation of `stream`, unless that is an
  /// overlapping launch: inside an OverlapScope the driver still reports full edges, and the answer applies to the
  /// first launch after it.
  [[nodiscard]] bool proves(StreamId stream, const Marks& marks) const;

 private:
  class Nodes;
  struct Lane;

  Lane& lane(StreamId stream);
  [[nodiscard]] const Lane* find(StreamId stream) const {
    return stream.value() < by_stream_.size() ? by_stream_[stream.value()] : nullptr;
  }
  void move(Lane& lane, std::span<const device::Dependency> next);

  Predecessors predecessors_;
  CaptureMoment now_ = 0;
  std::vector<std::unique_ptr<Nodes>> nodes_;  // one per 64 streams: a stream is a bit
  std::vector<std::unique_ptr<Lane>> lanes_;   // the first `streams_` are in use
  std::size_t streams_ = 0;
  std::vector<Lane*> by_stream_;  // by slot; null: never advanced
};

}  // namespace tessera::memory::detail
