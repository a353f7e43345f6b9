// The reuse prover: while a graph is captured, may a block that was freed earlier in the capture be handed to a stream?
//
//   at free    for each stream that used the block: advance(stream, what the driver says), mark(stream, marks)
//   at alloc   advance(stream, what the driver says); proves(stream, marks): the block's last uses are certainly over
//
// A node is certainly complete before what a stream captures next iff a path of full edges leads from it to the
// stream's dependency set and that entry of the set is full too. Weak edges (programmatic launches) prove nothing.
// The set of such nodes, here called proven, is kept per stream as one bit of every node and grows as the dependency
// set moves forward, each node being walked once; when the set moves any other way it is found anew.
//
//   k1 --full--> k2 --weak--> k3        dependency set {k3}: proven k3 alone; marks {k3, k2} (k2 covers k1)
//
// What marks cover. The prover is not told which nodes touched a block, so marks cover everything captured on the
// stream: all the nodes from which any path leads to a dependency set that advance() or replaced() was told of, and
// those sets themselves. Nodes captured and replaced between two calls, with nobody saying so, are unknown to it.
// Pure: no device call, no lock, not thread-safe. One object for one capture.
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

/// Nodes that must be complete, each once, sorted. Up to four take no memory of their own.
class Marks {
 public:
  /// Adds a node unless it is there.
  void add(NodeId node);
  /// Whether there is none: nothing to wait for.
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// How many.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The lowest.
  [[nodiscard]] const NodeId* begin() const { return size_ <= kInline ? few_.data() : many_.data(); }
  /// Past the highest.
  [[nodiscard]] const NodeId* end() const { return begin() + size_; }
  /// Forgets all.
  void clear() {
    size_ = 0;
    many_.clear();
  }

 private:
  static constexpr std::size_t kInline = 4;
  std::array<NodeId, kInline> few_{};
  std::size_t size_ = 0;
  std::vector<NodeId> many_;  // all of them, once there are more than kInline
};

/// A point in the life of a CaptureOrder: how many times a dependency set had changed.
using CaptureMoment = std::uint64_t;

/// What is ordered before what, in one capture.
class CaptureOrder {
 public:
  /// Appends the incoming edges of a node: the driver's word. Asked once a node (once per 64 streams); they must not
  /// change afterwards. May throw: the stream being advanced is then lost, nothing is proven for it and mark() throws.
  using Predecessors = std::function<void(NodeId node, std::vector<device::Dependency>& out)>;

  /// Nothing is captured yet.
  explicit CaptureOrder(Predecessors predecessors);
  ~CaptureOrder();
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;

  /// What `stream` captures next will depend on `next`, says the driver now. To be called before mark() and proves()
  /// for that stream. Returns whether the set is another than at the last call; if not, proves() has no new answers.
  bool advance(StreamId stream, std::span<const device::Dependency> next);
  /// The stream's dependencies were replaced by a call we saw; they had been `before`. What was captured on the stream
  /// until then stays covered by later marks.
  void replaced(StreamId stream, std::span<const device::Dependency> before);

  /// Now. Taken when a block is handed out, it frees the block's marks from what was captured before (see mark).
  [[nodiscard]] CaptureMoment now() const { return now_; }
  /// Adds the nodes that must be complete before everything captured on `stream` is certainly over: the dependency
  /// set; the sources of weak edges behind it; dependencies that were replaced. Of those last two, only what was found
  /// after `since`, the moment at which the block in question was handed out: earlier work cannot have used it, and the
  /// marks still cover all that was proven for `stream` at that moment, hence the block's earlier lives too. Without it
  /// one overlapping launch, which nothing ever proves complete, would bar every later block of the stream from reuse.
  void mark(StreamId stream, Marks& marks, CaptureMoment since = 0) const;
  /// Whether all marks are certainly complete before what `stream` captures next, provided that is not an overlapping
  /// launch: inside an OverlapScope the driver's set still says full, and the answer is for the first launch after it.
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
  std::vector<std::unique_ptr<Nodes>> nodes_;  // one for each 64 streams: a stream is a bit
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> by_stream_;  // by slot; null: never advanced
};

}  // namespace tessera::memory::detail
