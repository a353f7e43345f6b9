// Which replays are valid, among graphs captured into one pool and hence sharing memory.
//
// Each graph has the ranges it writes (what it was given during its capture) and its inputs: memory that live blocks of
// other graphs held, with the graph expected to have written it. Two rules:
//   dataflow     an input is good while its writer has been replayed and nothing has written over it since; one that no
//                graph writes (its capture was dropped: what is in it the holder put there) while no graph has written
//                over it since the reader was added
//   concurrency  the latest replay of any graph with which this one conflicts (one writes what the other reads or
//   writes)
//                is ordered before this replay or known complete
// so that graphs of which none is an input of another may be replayed in any order on one stream.
//
//   B's input is A's output, C overlaps that; all on one stream:
//     A  B  C  A  B   good
//     A  C  B         B is refused: C has overwritten its input; replay A again
//
// Replays of one graph follow each other on the device, whatever their streams (GraphExec::launch), so a graph never
// conflicts with itself, nor with what its own latest replay came after. Who conflicts with whom is found when graphs
// come and go; a check only compares numbers. What a removed graph wrote and read stays known by address. A graph is
// announced when its capture begins, so that one whose capture ends before may name it as a writer.
// Pure: no device call, no lock, not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/ids.h"

namespace tessera::memory::detail {

/// A graph of one ReplayOrder, never used twice; 0 is none.
using GraphKey = Id<struct GraphKeyTag, std::uint64_t>;

/// Bytes from `begin` to before `end`.
struct ByteRange {
  std::uintptr_t begin = 0;  ///< the first
  std::uintptr_t end = 0;    ///< past the last
};

/// Memory that a graph reads and another has written.
struct GraphInput {
  ByteRange range;  ///< must lie within what the writer writes
  GraphKey writer;  ///< may have been removed: what it wrote last stays good until it is overwritten; 0: no graph
};

/// The replays of the graphs that share a pool.
class ReplayOrder {
 public:
  /// Whether the work of a stream up to a tick is ordered before the replay in question, or known complete.
  using Ordered = std::function<bool(StreamId stream, Tick tick)>;

  /// A graph that is being captured. `name` is for messages. Others may have it as a writer from now on.
  GraphKey announce(std::string name);
  /// An announced graph is there. Throws InvalidArgument where a range is empty or an input lies outside of what its
  /// writer writes.
  void add(GraphKey graph, std::vector<ByteRange> writes, const std::vector<GraphInput>& inputs);
  /// The graph will not be replayed again. Its output stays good until it is overwritten; replays that conflict with
  /// its last one are still held against that. Returns false where it was only announced: inputs that named it have no
  /// writer.
  bool remove(GraphKey graph);

  /// Why `graph` must not be replayed on stream `on` now: names the graphs, the bytes and the way out. Empty: it may.
  [[nodiscard]] std::optional<std::string> refusal(GraphKey graph, StreamId on, const Ordered& ordered) const;
  /// The graph was replayed on `stream`, whose work up to `tick` includes it.
  void replayed(GraphKey graph, StreamId stream, Tick tick);

  /// Graphs there are, with those announced.
  [[nodiscard]] std::size_t size() const { return graphs_.size() - vacant_.size(); }

 private:
  using Slot = std::uint32_t;
  static constexpr Slot kRemoved = 0xFFFFFFFF;
  // The latest replay of a graph. Numbers count all replays; 0: never.
  struct Replay {
    std::uint64_t number = 0;
    StreamId stream;
    Tick tick;
  };
  // The latest replay of a graph that was removed.
  struct PastReplay {
    GraphKey graph;
    Replay replay;
    std::shared_ptr<const std::string> name;
  };
  // What removed graphs did to some bytes: the last write and, of each stream, the last read since.
  struct PastBytes {
    std::uintptr_t end = 0;
    PastReplay writer;
    std::vector<PastReplay> readers;
  };
  using Past = std::map<std::uintptr_t, PastBytes>;  // by first byte

  struct Input {
    ByteRange range;
    GraphKey writer;
    std::shared_ptr<const std::string> writer_name;  // null: it was removed before
    Slot writer_slot = kRemoved;                     // kRemoved: `written` instead
    std::uint64_t written = 0;                       // number of the removed writer's last replay, as far as it shows
    std::uint64_t added = 0;                         // replays there had been when the reader was added
    std::vector<Slot> overwriters;                   // other graphs that write any of it
    PastReplay past_overwriter;                      // the latest removed one
  };
  struct Graph {
    GraphKey key;
    std::shared_ptr<const std::string> name;
    bool is_announced = false;      // and not added yet
    std::vector<ByteRange> writes;  // sorted, apart
    std::vector<Input> inputs;
    std::vector<Slot> conflicts;
    std::vector<PastReplay> past_conflicts;
  };

  [[nodiscard]] Slot find(GraphKey key) const;  // kRemoved: gone
  [[nodiscard]] Slot slot(GraphKey key) const;
  Slot vacant_slot();
  [[nodiscard]] Input make_input(const GraphInput& input) const;
  [[nodiscard]] static std::optional<ByteRange> shared(const Graph& a, const Graph& b);
  void relate(Slot a, Slot b);
  void recall(Slot slot);
  void recall(Input& input) const;
  void remember(const Graph& graph, const Replay& replay);
  template <class Change>
  void change_past(ByteRange range, const Change& change);
  template <class Visit>
  void for_past(ByteRange range, const Visit& visit) const;
  Past::iterator split(std::uintptr_t at);

  [[nodiscard]] static std::string lost_input(const Graph& graph, const Input& input, const std::string* by);
  [[nodiscard]] static std::string concurrent(const Graph& graph, StreamId on, const std::string& other,
                                              const Replay& replay, std::optional<ByteRange> bytes);

  std::vector<Graph> graphs_;   // by slot
  std::vector<Replay> latest_;  // by slot
  std::vector<Slot> vacant_;
  std::uint64_t keys_ = 0;
  std::uint64_t replays_ = 0;
  Replay run_;  // the earliest replay since which all were on its stream
  Past past_;
};

}  // namespace tessera::memory::detail
