// Validity of replays of graphs that were captured into one pool and so share memory.
//
// Each graph has the ranges it writes (its allocations in the capture) and its inputs: memory of live blocks of other
// graphs, with the expected writer. Two rules:
//   dataflow     an input is valid if its writer has been replayed and nothing has overwritten it since; an input
//   without
//                a writer (its capture was dropped, and its holder wrote it) is valid if no graph has overwritten it
//                since the reader was added
//   concurrency  the latest replay of any conflicting graph (one writes what the other reads or writes) is ordered
//   before
//                this replay or known complete
// Graphs that are not inputs of each other may therefore be replayed in any order on one stream.
//
//   the input of B is the output of A, and C overlaps it; all on one stream:
//     A  B  C  A  B   valid
//     A  C  B         B is rejected: C has overwritten its input; replay A again
//
// Replays of one graph are ordered on the device, on any streams (GraphExec::launch), so a graph never conflicts with
// itself, nor with replays before its own latest one. Conflicts are computed when graphs are added and removed; a check
// only compares numbers. Writes and reads of a removed graph stay known by address. A graph is announced when its
// capture begins, so that a graph whose capture ends earlier may name it as a writer. Pure: no device call, no lock,
// not thread-safe.
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

/// A graph of one ReplayOrder, never reused; 0 is none.
using GraphKey = Id<struct GraphKeyTag, std::uint64_t>;

/// Bytes [begin, end).
struct ReplayRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Memory that a graph reads and another has written.
struct GraphInput {
  ReplayRange range;  ///< Must be within the ranges of the writer.
  GraphKey writer;    ///< May have been removed: its output stays valid until overwritten; 0: no graph.
};

/// The replays of the graphs that share a pool.
class ReplayOrder {
 public:
  /// Returns true if the work of a stream up to a tick is ordered before the replay in question, or known complete.
  using Ordered = std::function<bool(StreamId stream, Tick tick)>;

  /// Adds a graph that is being captured. `name` is for messages. Other graphs may name it as a writer from now on.
  GraphKey announce(std::string name);
  /// Completes an announced graph. Throws InvalidArgument if a range is empty or an input is outside of the ranges of
  /// its writer.
  void add(GraphKey graph, std::vector<ReplayRange> writes, const std::vector<GraphInput>& inputs);
  /// Removes a graph. Its output stays valid until overwritten, and its last replay still conflicts with others.
  /// Returns false if it was only announced: inputs that named it have no writer.
  bool remove(GraphKey graph);

  /// Returns why `graph` must not be replayed on stream `on` now, with the graphs, the bytes and a fix; nothing if it
  /// may.
  [[nodiscard]] std::optional<std::string> refusal(GraphKey graph, StreamId on, const Ordered& ordered) const;
  /// Records a replay of the graph on `stream`, whose work up to `tick` includes it.
  void replayed(GraphKey graph, StreamId stream, Tick tick);

  /// Returns the number of graphs, including announced ones.
  [[nodiscard]] std::size_t size() const { return graphs_.size() - vacant_.size(); }

 private:
  using Slot = std::uint32_t;
  static constexpr Slot kRemoved = 0xFFFFFFFF;
  // Latest replay of a graph. Numbers count all replays; 0: never.
  struct Replay {
    std::uint64_t number = 0;
    StreamId stream;
    Tick tick;
  };
  // Latest replay of a removed graph.
  struct PastReplay {
    GraphKey graph;
    Replay replay;
    std::shared_ptr<const std::string> name;
  };
  // Effects of removed graphs on some bytes: the last write and, per stream, the last read since.
  struct PastBytes {
    std::uintptr_t end = 0;
    PastReplay writer;
    std::vector<PastReplay> readers;
  };
  using Past = std::map<std::uintptr_t, PastBytes>;  // by first byte

  struct ReplayInput {
    ReplayRange range;
    GraphKey writer;
    std::shared_ptr<const std::string> writer_name;  // null: it was removed before
    Slot writer_slot = kRemoved;                     // kRemoved: `written` instead
    std::uint64_t written = 0;      // number of the last replay of the removed writer, as far as visible
    std::uint64_t added = 0;        // number of replays when the reader was added
    std::vector<Slot> overwriters;  // other graphs that write any of it
    PastReplay past_overwriter;     // the latest removed one
  };
  struct ReplayGraph {
    GraphKey key;
    std::shared_ptr<const std::string> name;
    bool is_announced = false;        // and not added yet
    std::vector<ReplayRange> writes;  // sorted and disjoint
    std::vector<ReplayInput> inputs;
    std::vector<Slot> conflicts;
    std::vector<PastReplay> past_conflicts;
  };

  [[nodiscard]] Slot find(GraphKey key) const;  // kRemoved: gone
  [[nodiscard]] Slot slot(GraphKey key) const;
  Slot vacant_slot();
  [[nodiscard]] ReplayInput make_input(const GraphInput& input) const;
  [[nodiscard]] static std::optional<ReplayRange> shared(const ReplayGraph& a, const ReplayGraph& b);
  void relate(Slot a, Slot b);
  void recall(Slot slot);
  void recall(ReplayInput& input) const;
  void remember(const ReplayGraph& graph, const Replay& replay);
  template <class Change>
  void change_past(ReplayRange range, const Change& change);
  template <class Visit>
  void for_past(ReplayRange range, const Visit& visit) const;
  Past::iterator split(std::uintptr_t at);

  [[nodiscard]] static std::string lost_input(const ReplayGraph& graph, const ReplayInput& input,
                                              const std::string* by);
  [[nodiscard]] static std::string concurrent(const ReplayGraph& graph, StreamId on, const std::string& other,
                                              const Replay& replay, std::optional<ReplayRange> bytes);

  std::vector<ReplayGraph> graphs_;  // by slot
  std::vector<Replay> latest_;       // by slot
  std::vector<Slot> vacant_;
  std::uint64_t keys_ = 0;
  std::uint64_t replays_ = 0;
  Replay run_;  // the earliest replay since which all were on its stream
  Past past_;
};

}  // namespace tessera::memory::detail
