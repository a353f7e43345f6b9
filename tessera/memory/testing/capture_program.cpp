#include "tessera/memory/testing/capture_program.h"

#include <array>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/memory/detail/capture_order.h"
#include "tessera/memory/testing/random_numbers.h"

namespace tessera::memory::testing {
namespace {

using device::Dependency;
using device::EdgeKind;
using memory::detail::CaptureMoment;
using memory::detail::CaptureOrder;
using memory::detail::Marks;

using Set = std::uint64_t;  // of nodes: bit i is node i
constexpr int kMaxNodes = 64;
constexpr int kMaxStreams = 5;
constexpr int kBlocks = 5;

Set one(int node) { return Set{1} << node; }

// Dependencies of a node or stream.
struct Edges {
  Set full = 0;
  Set weak = 0;
  [[nodiscard]] Set all() const { return full | weak; }
  friend bool operator==(const Edges&, const Edges&) = default;
};

// The nodes so far. Edges lead from lower numbers to higher, so that one downward pass closes a set.
struct Dag {
  std::array<Edges, kMaxNodes> edges;
  int size = 0;

  [[nodiscard]] Set full_ancestors(Set nodes) const {
    for (int i = size - 1; i >= 0; --i) nodes |= (nodes >> i & 1) != 0 ? edges[static_cast<std::size_t>(i)].full : 0;
    return nodes;
  }
  [[nodiscard]] Set ancestors(Set nodes) const {
    for (int i = size - 1; i >= 0; --i) nodes |= (nodes >> i & 1) != 0 ? edges[static_cast<std::size_t>(i)].all() : 0;
    return nodes;
  }
  [[nodiscard]] Set parents(Set nodes) const {
    Set found = 0;
    for (int i = 0; i < size; ++i) found |= (nodes >> i & 1) != 0 ? edges[static_cast<std::size_t>(i)].all() : 0;
    return found;
  }
};

struct ModelStream {
  StreamId id;
  Edges next;               // the dependency set
  Set captured = 0;         // nodes captured on it
  std::vector<Edges> told;  // dependency sets passed to the prover
};

struct Block {
  enum State { kFresh, kLive, kFree };
  State state = kFresh;
  // Current life:
  unsigned users = 0;  // streams, by bit
  int born = 0;        // number of nodes then
  CaptureMoment since = 0;
  std::array<std::size_t, kMaxStreams> told{};  // dependency sets passed by then
  // All lives:
  Set uses = 0;
  // Once free:
  Set required = 0;
  Marks marks;
};

class Program {
 public:
  Program(std::uint64_t seed, CaptureCounts* counts)
      : random_(seed),
        counts_(counts),
        ids_(random_.below(3)),
        streams_(static_cast<std::size_t>(2 + random_.below(kMaxStreams - 1))),
        unseen_(random_.one_in(3)),
        weak_one_in_(random_.one_in(3) ? 1 << 20 : 2 + random_.below(10)),
        order_([this](NodeId id, std::vector<Dependency>& out) { predecessors(id, out); }) {
    // Some programs come after many streams, so that theirs do not share one table of the prover.
    const int before = random_.one_in(16) ? 60 + random_.below(8) : 0;
    for (int i = 0; i < before; ++i) order_.advance(StreamId(static_cast<std::uint32_t>(i)), {});
    const int stride = 1 + random_.below(3);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].id = StreamId(static_cast<std::uint32_t>(before) + static_cast<std::uint32_t>(i) * stride);
    }
  }

  std::string run() {
    const int steps = 40 + random_.below(260);
    for (int i = 0; i < steps && dag_.size < kMaxNodes && failure_.empty(); ++i) step();
    for (int i = 0; i < kBlocks; ++i) release(blocks_[static_cast<std::size_t>(i)]);
    for (int i = 0; i < 10 && failure_.empty(); ++i) {
      if (random_.one_in(3)) join(any_stream());
      ask();
    }
    return failure_;
  }

 private:
  ModelStream& any_stream() {
    return streams_[static_cast<std::size_t>(random_.below(static_cast<int>(streams_.size())))];
  }
  Block& any_block() { return blocks_[static_cast<std::size_t>(random_.below(kBlocks))]; }

  // Small integers as on the host, addresses as on CUDA, anything.
  [[nodiscard]] NodeId id(int node) const {
    const auto number = static_cast<std::uint64_t>(node);
    if (ids_ == 0) return NodeId(number);
    return NodeId(ids_ == 1 ? 0x7F3A10000040 + number * 0x240 : (number + 1) * 0xA24BAED4963EE407ull);
  }
  void list(const Edges& edges, std::vector<Dependency>& out) const {
    for (int i = dag_.size - 1; i >= 0; --i) {
      if ((edges.full >> i & 1) != 0) out.push_back({id(i), EdgeKind::kFull});
      if ((edges.weak >> i & 1) != 0) out.push_back({id(i), EdgeKind::kWeak});
    }
  }
  void predecessors(NodeId node, std::vector<Dependency>& out) const {
    for (int i = 0; i < dag_.size; ++i) {
      if (id(i) == node) return list(dag_.edges[static_cast<std::size_t>(i)], out);
    }
    TESSERA_THROW(InvalidArgument, "the prover asks for node ", node, ", which is none");
  }

  void step() {
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: return capture(any_stream());
      case 5: event_ = any_stream().next; return;
      case 6:
      case 7: return join(any_stream());
      case 8: return random_.one_in(4) ? replace(any_stream()) : capture(any_stream());
      case 9: return advance(any_stream());
      case 10:
      case 11: return random_.one_in(2) ? allocate() : use();
      case 12:
      case 13: return release(any_block());
      default: return ask();
    }
  }

  void capture(ModelStream& on) {
    if (dag_.size == kMaxNodes) return;
    Edges edges = on.next;
    if (random_.one_in(weak_one_in_)) {
      const Set overlapped = random_.one_in(2) ? edges.full : edges.full & on.captured;
      edges.weak |= overlapped;
      edges.full &= ~overlapped;
    }
    const int node = dag_.size++;
    dag_.edges[static_cast<std::size_t>(node)] = edges;
    on.captured |= one(node);
    const bool is_weak = random_.one_in(4 * weak_one_in_);  // as after an event of a programmatic launch
    on.next = is_weak ? Edges{0, one(node)} : Edges{one(node), 0};
  }

  void join(ModelStream& on) {
    const Edges from = random_.one_in(3) ? event_ : any_stream().next;
    on.next.full |= from.full;
    on.next.weak |= from.weak;
    if (!random_.one_in(8)) on.next.weak &= ~on.next.full;  // sometimes a node is present both ways
  }

  void replace(ModelStream& on) {
    if (dag_.size == 0) return;
    if (!unseen_ || random_.one_in(2)) {
      std::vector<Dependency> before;
      list(on.next, before);
      order_.replaced(on.id, before);
      note_told(on);
    }
    on.next = {};
    for (int i = random_.below(3); i > 0; --i) on.next.full |= one(random_.below(dag_.size));
    if (random_.one_in(6)) on.next.weak |= one(random_.below(dag_.size)) & ~on.next.full;
  }

  void note_told(ModelStream& on) {
    if (on.told.empty() || on.told.back() != on.next) on.told.push_back(on.next);
  }
  void advance(ModelStream& on) {
    std::vector<Dependency>& next = scratch_;
    next.clear();
    list(on.next, next);
    if (next.size() > 1 && random_.one_in(4)) std::swap(next.front(), next.back());
    order_.advance(on.id, next);
    note_told(on);
  }

  void live(Block& block, std::size_t stream) {
    block.state = Block::kLive;
    block.users = 1U << stream;
    block.born = dag_.size;
    block.since = random_.one_in(4) ? 0 : order_.now();
    for (std::size_t i = 0; i < streams_.size(); ++i) block.told[i] = block.since == 0 ? 0 : streams_[i].told.size();
  }
  void allocate() {
    Block& block = any_block();
    if (block.state != Block::kFresh) return;
    const auto stream = static_cast<std::size_t>(random_.below(static_cast<int>(streams_.size())));
    if (random_.one_in(2)) advance(streams_[stream]);
    live(block, stream);
  }
  void use() {
    Block& block = any_block();
    if (block.state == Block::kLive) block.users |= 1U << random_.below(static_cast<int>(streams_.size()));
  }

  void release(Block& block) {
    if (block.state != Block::kLive) return;
    block.marks.clear();
    block.required = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if ((block.users >> i & 1) == 0) continue;
      ModelStream& on = streams_[i];
      advance(on);
      order_.mark(on.id, block.marks, block.since);
      block.required |= required(on, block.told[i]);
      const Set used = on.captured & (block.born == kMaxNodes ? 0 : ~Set{0} << block.born);
      const Set known = seen(on, on.told.size());
      if (!unseen_ && (used & ~known) != 0) failure_ = "the model is wrong: a captured node is in no set";
      block.uses |= used & known;
    }
    block.state = Block::kFree;
  }

  // Returns all nodes before the first `count` passed dependency sets.
  [[nodiscard]] Set seen(const ModelStream& on, std::size_t count) const {
    Set nodes = 0;
    for (std::size_t i = 0; i < count; ++i) nodes |= on.told[i].all();
    return dag_.ancestors(nodes);
  }
  [[nodiscard]] Set required(const ModelStream& on, std::size_t told) const {
    const Set found = seen(on, on.told.size()) & ~seen(on, told);
    Set nodes = found | dag_.parents(found);
    for (std::size_t i = told == 0 ? 0 : told - 1; i < on.told.size(); ++i) nodes |= on.told[i].all();
    return nodes;
  }

  void ask() {
    Block& block = any_block();
    if (block.state != Block::kFree) return;
    for (int i = 1 + random_.below(2); i > 0 && block.state == Block::kFree; --i) ask(block);
  }
  void ask(Block& block) {
    const auto stream = static_cast<std::size_t>(random_.below(static_cast<int>(streams_.size())));
    ModelStream& by = streams_[stream];
    advance(by);
    const bool answer = order_.proves(by.id, block.marks);
    const Set complete = dag_.full_ancestors(by.next.full);
    const bool is_safe = (block.uses & ~complete) == 0;
    const bool is_provable = (block.required & ~complete) == 0;
    if (answer && !is_safe) {
      failure_ = "unsafe reuse: a block was handed out while nodes may still use it";
    } else if (answer != is_provable) {
      failure_ = answer ? "reuse that the prover had no way to know to be safe"
                        : "missed reuse: everything captured on the using streams is complete";
    }
    if (counts_ != nullptr) ++(answer ? counts_->proven : counts_->refused);
    if (answer && random_.one_in(2)) live(block, stream);
  }

  RandomNumbers random_;
  CaptureCounts* counts_;
  int ids_;
  std::vector<ModelStream> streams_;
  bool unseen_;      // dependencies are sometimes replaced without notice
  int weak_one_in_;  // overlapping launches
  CaptureOrder order_;
  Dag dag_;
  Edges event_;
  std::array<Block, kBlocks> blocks_;
  std::vector<Dependency> scratch_;
  std::string failure_;
};

}  // namespace

std::string check_capture_program(std::uint64_t seed, CaptureCounts* counts) { return Program(seed, counts).run(); }

}  // namespace tessera::memory::testing
