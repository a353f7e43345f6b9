#include "tessera/memory/detail/capture_order.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::memory::detail {
namespace {

using device::Dependency;
using device::EdgeKind;

using Index = std::uint32_t;  // dense index of a node
constexpr Index kNone = 0xFFFFFFFF;
constexpr std::size_t kStreamsPerTable = 64;
constexpr std::size_t kTidyAt = 8;

// A node that the dependency set does not cover by full edges, and when it was found.
struct Uncovered {
  Index node;
  CaptureMoment found;
};

bool is_full(EdgeKind kind) { return kind == EdgeKind::kFull; }

bool holds(std::span<const Dependency> dependencies, NodeId node) {
  return std::any_of(dependencies.begin(), dependencies.end(), [&](const Dependency& d) { return d.node == node; });
}

}  // namespace

void Marks::add(NodeId node) {
  NodeId* const first = size_ <= kInline ? few_.data() : many_.data();
  NodeId* const last = first + size_;
  NodeId* const at = size_ == 0 || last[-1] < node ? last : std::lower_bound(first, last, node);
  if (at != last && *at == node) return;
  if (size_ < kInline) {
    std::copy_backward(at, last, last + 1);
    *at = node;
  } else {
    if (size_ == kInline) many_.assign(first, last);
    many_.insert(many_.begin() + (at - first), node);
  }
  ++size_;
}

// One stream of the capture.
struct CaptureOrder::Lane {
  Nodes* nodes;
  std::uint64_t bit;  // its bit in `nodes`
  std::vector<Dependency> dependencies;
  std::vector<Index> indices;       // of the dependencies
  std::vector<Index> next_indices;  // of the next ones, while the lane advances
  std::vector<Uncovered> uncovered;
  std::size_t tidy_at = kTidyAt;  // size of `uncovered` at which tidying is worthwhile
  bool is_lost = false;

  void clear() {
    dependencies.clear();
    indices.clear();
    uncovered.clear();
    tidy_at = kTidyAt;
    is_lost = false;
  }
};

// The nodes of the capture for up to 64 streams: an open-addressing hash from id to a dense index; per node and stream,
// whether it is proven and whether it has been seen; and the incoming edges, queried once.
class CaptureOrder::Nodes {
 public:
  explicit Nodes(const Predecessors& predecessors) : predecessors_(predecessors), slots_(kFewSlots, kNone) {
    // Reserved but untouched memory costs nothing; growing touches memory twice, and first touches cost more than the
    // proofs.
    nodes_.reserve(kManyNodes);
    edges_.reserve(kManyNodes);
  }
  // Removes all nodes; keeps its memory.
  void clear() {
    std::fill(slots_.begin(), slots_.end(), kNone);
    nodes_.clear();
    edges_.clear();
    walks_ = 0;
  }

  [[nodiscard]] bool is_proven(NodeId id, std::uint64_t bit) const {
    const Index index = find(id);
    return index != kNone && (nodes_[index].proven & bit) != 0;
  }
  [[nodiscard]] bool is_proven(Index index, std::uint64_t bit) const { return (nodes_[index].proven & bit) != 0; }
  [[nodiscard]] NodeId id(Index index) const { return nodes_[index].id; }
  // Returns true if the last walk reached this node along full edges and found it already proven.
  [[nodiscard]] bool was_met(Index index) const { return nodes_[index].met == walks_; }

  // Marks all nodes before `next` by full edges as proven for the lane, and all nodes before it by any edges as seen;
  // stops at known nodes. The sources of weak edges that are new to the lane become uncovered.
  void walk(Lane& lane, std::span<const Dependency> next, CaptureMoment now) {
    ++walks_;
    steps_.clear();
    lane.next_indices.clear();
    for (const Dependency& dependency : next) {
      const Index index = find_or_add(dependency.node);
      lane.next_indices.push_back(index);
      if (const auto step = reach(lane, index, is_full(dependency.kind))) walk_from(lane, *step, now);
    }
    while (!steps_.empty()) {
      const Step step = steps_.back();
      steps_.pop_back();
      walk_from(lane, step, now);
    }
  }

  // Clears the proven nodes of the lane; seen nodes stay.
  void clear_proven(Lane& lane) {
    for (Node& node : nodes_) node.proven &= ~lane.bit;
  }

  // Removes nodes that have become proven, and of several entries for one node all but the latest.
  void tidy(Lane& lane) {
    ++walks_;
    auto keep = lane.uncovered.end();
    for (auto at = lane.uncovered.end(); at != lane.uncovered.begin();) {
      --at;
      Node& node = nodes_[at->node];
      if ((node.proven & lane.bit) != 0 || node.met == walks_) continue;
      node.met = walks_;
      *--keep = *at;
    }
    lane.uncovered.erase(lane.uncovered.begin(), keep);
    lane.tidy_at = 2 * lane.uncovered.size() + kTidyAt;
  }

 private:
  static constexpr Index kNotAsked = kNone;
  static constexpr std::size_t kFewSlots = 64;
  static constexpr std::size_t kManyNodes = 16384;
  struct Node {
    NodeId id;
    std::uint64_t proven = 0;  // streams for which it completes before their next captured operation
    std::uint64_t seen = 0;    // streams with a path of any edges to it; includes `proven`
    Index first_edge = 0;
    Index edges = kNotAsked;
    std::uint32_t met = 0;  // number of the walk
  };
  // Edges and steps are words: values stored in parts and loaded as a unit soon after stall the processor.
  class Edge {
   public:
    Edge(Index from, bool is_full) : word_(from << 1 | Index{is_full}) {}
    [[nodiscard]] Index from() const { return word_ >> 1; }
    [[nodiscard]] bool is_full() const { return (word_ & 1) != 0; }

   private:
    Index word_;
  };
  // A node to walk from.
  class Step {
   public:
    Step(Index node, bool proves, bool is_new)
        : word_(node | std::uint64_t{proves} << 32 | std::uint64_t{is_new} << 33) {}
    [[nodiscard]] Index node() const { return static_cast<Index>(word_); }
    [[nodiscard]] bool proves() const { return (word_ >> 32 & 1) != 0; }  // reached by full edges alone
    [[nodiscard]] bool is_new() const { return (word_ >> 33 & 1) != 0; }  // the lane had not seen it
   private:
    std::uint64_t word_;
  };

  // Reaches a node; if that is new, the walk continues from there.
  std::optional<Step> reach(const Lane& lane, Index index, bool proves) {
    Node& node = nodes_[index];
    const bool is_new = (node.seen & lane.bit) == 0;
    if (proves) {
      if ((node.proven & lane.bit) != 0) {
        node.met = walks_;
        return std::nullopt;
      }
      node.proven |= lane.bit;
      node.seen |= lane.bit;
    } else {
      if (!is_new) return std::nullopt;
      node.seen |= lane.bit;
    }
    return Step(index, proves, is_new);
  }

  void walk_from(Lane& lane, Step step, CaptureMoment now) {
    ask_edges(step.node());
    const Index first = nodes_[step.node()].first_edge;
    const Index last = first + nodes_[step.node()].edges;
    for (Index i = first; i < last; ++i) {
      const Edge edge = edges_[i];
      if (!edge.is_full()) {
        if (!step.is_new()) continue;
        lane.uncovered.push_back({edge.from(), now});
      }
      if (const auto next = reach(lane, edge.from(), edge.is_full() && step.proves())) steps_.push_back(*next);
    }
  }

  void ask_edges(Index index) {
    if (nodes_[index].edges != kNotAsked) return;
    answer_.clear();
    predecessors_(nodes_[index].id, answer_);
    const auto first = static_cast<Index>(edges_.size());
    for (const Dependency& from : answer_) {
      edges_.emplace_back(find_or_add(from.node), is_full(from.kind));
    }
    nodes_[index].first_edge = first;
    nodes_[index].edges = static_cast<Index>(answer_.size());
  }

  // Ids are small integers or addresses; the high bits of the product depend on all bits of either.
  [[nodiscard]] std::size_t home(NodeId id) const { return (id.value() * 0x9E3779B97F4A7C15ull) >> shift_; }

  [[nodiscard]] Index find(NodeId id) const {
    for (std::size_t at = home(id);; at = (at + 1) & (slots_.size() - 1)) {
      const Index index = slots_[at];
      if (index == kNone || nodes_[index].id == id) return index;
    }
  }

  Index find_or_add(NodeId id) {
    const Index found = find(id);
    if (found != kNone) return found;
    if (2 * (nodes_.size() + 1) > slots_.size()) grow();
    const auto index = static_cast<Index>(nodes_.size());
    nodes_.push_back({.id = id});
    place(id, index);
    return index;
  }

  void place(NodeId id, Index index) {
    std::size_t at = home(id);
    while (slots_[at] != kNone) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = index;
  }

  void grow() {
    slots_.assign(4 * slots_.size(), kNone);
    shift_ = 64 - std::countr_zero(slots_.size());
    for (Index i = 0; i < nodes_.size(); ++i) place(nodes_[i].id, i);
  }

  const Predecessors& predecessors_;
  std::vector<Index> slots_;  // a power of two, at most half full; kNone: empty
  int shift_ = 64 - std::countr_zero(kFewSlots);
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::uint32_t walks_ = 0;
  std::vector<Step> steps_;         // still to walk
  std::vector<Dependency> answer_;  // of predecessors_
};

CaptureOrder::CaptureOrder(Predecessors predecessors) : predecessors_(std::move(predecessors)) {}
CaptureOrder::~CaptureOrder() = default;

CaptureOrder::Lane& CaptureOrder::lane(StreamId stream) {
  if (stream.value() >= by_stream_.size()) by_stream_.resize(stream.value() + 1, nullptr);
  Lane*& known = by_stream_[stream.value()];
  if (known == nullptr) {
    const std::size_t number = streams_++;
    if (number == lanes_.size()) {
      if (number % kStreamsPerTable == 0) nodes_.push_back(std::make_unique<Nodes>(predecessors_));
      lanes_.push_back(std::make_unique<Lane>());
      lanes_.back()->nodes = nodes_.back().get();
      lanes_.back()->bit = std::uint64_t{1} << number % kStreamsPerTable;
    }
    known = lanes_[number].get();
  }
  return *known;
}

void CaptureOrder::reset() {
  std::fill(by_stream_.begin(), by_stream_.end(), nullptr);
  for (std::size_t i = 0; i < streams_; ++i) lanes_[i]->clear();
  for (std::size_t i = 0; i * kStreamsPerTable < streams_; ++i) nodes_[i]->clear();
  streams_ = 0;
  now_ = 0;
}

bool CaptureOrder::advance(StreamId stream, std::span<const Dependency> next) {
  Lane& at = lane(stream);
  if (std::equal(next.begin(), next.end(), at.dependencies.begin(), at.dependencies.end())) return false;
  if (at.is_lost) return false;
  ++now_;
  at.is_lost = true;  // unless all succeeds: no other walk would visit the nodes of an interrupted one again
  move(at, next);
  at.is_lost = false;
  return true;
}

void CaptureOrder::move(Lane& lane, std::span<const Dependency> next) {
  Nodes& nodes = *lane.nodes;
  nodes.walk(lane, next, now_);

  // Proven nodes stay proven only if every old dependency precedes the new ones by full edges.
  bool is_forward = true;
  bool had_weak = false;
  for (std::size_t i = 0; i < lane.indices.size(); ++i) {
    const bool was_full = lane.dependencies[i].kind == EdgeKind::kFull;
    had_weak |= !was_full;
    is_forward &= !was_full || nodes.was_met(lane.indices[i]);
  }
  if (!is_forward) {
    nodes.clear_proven(lane);
    nodes.walk(lane, next, now_);
  }
  // An old dependency that is not proven now was replaced, or only weak edges lead from it.
  if (!is_forward || had_weak) {
    for (std::size_t i = 0; i < lane.indices.size(); ++i) {
      const bool is_covered = nodes.is_proven(lane.indices[i], lane.bit) || holds(next, lane.dependencies[i].node);
      if (!is_covered) lane.uncovered.push_back({lane.indices[i], now_});
    }
  }
  lane.dependencies.assign(next.begin(), next.end());
  lane.indices.swap(lane.next_indices);
  if (lane.uncovered.size() >= lane.tidy_at) nodes.tidy(lane);
}

void CaptureOrder::replaced(StreamId stream, std::span<const Dependency> before) {
  // The next advance() finds that these do not precede what replaced them, unless they do.
  advance(stream, before);
}

void CaptureOrder::mark(StreamId stream, Marks& marks, CaptureMoment since) const {
  const Lane* const at = find(stream);
  TESSERA_CHECK(at != nullptr && !at->is_lost, "capture: the captured work of stream ", stream,
                " is unknown; call advance() successfully first, or keep the block until the capture ends");
  for (const Dependency& dependency : at->dependencies) marks.add(dependency.node);
  if (at->uncovered.empty()) return;
  const auto first =
      std::upper_bound(at->uncovered.begin(), at->uncovered.end(), since,
                       [](CaptureMoment moment, const Uncovered& entry) { return moment < entry.found; });
  for (auto entry = first; entry != at->uncovered.end(); ++entry) {
    if (!at->nodes->is_proven(entry->node, at->bit)) marks.add(at->nodes->id(entry->node));
  }
}

bool CaptureOrder::proves(StreamId stream, const Marks& marks) const {
  const Lane* const at = find(stream);
  if (at == nullptr || at->is_lost) return false;
  return std::all_of(marks.begin(), marks.end(), [&](NodeId node) { return at->nodes->is_proven(node, at->bit); });
}

}  // namespace tessera::memory::detail
