#include "tessera/memory/testing/replay_program.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tessera/memory/detail/replay_order.h"
#include "tessera/memory/testing/random_numbers.h"

namespace tessera::memory::testing {
namespace {

using memory::detail::GraphInput;
using memory::detail::GraphKey;
using memory::detail::ReplayOrder;
using memory::detail::ReplayRange;

constexpr int kBytes = 40;
constexpr int kStreams = 3;
constexpr int kMaxLive = 6;
constexpr std::uintptr_t kBase = 0x7F0000000000;

// Per stream, the latest tick that happens before.
struct Clock {
  std::array<int, kStreams> ticks{};
  void merge(const Clock& other) {
    for (std::size_t i = 0; i < ticks.size(); ++i) ticks[i] = std::max(ticks[i], other.ticks[i]);
  }
};

struct Replay {
  int graph = -1;
  std::size_t stream = 0;
  int tick = 0;
  Clock before;  // work that truly happens before its end, including itself
  Clock known;   // the part of it that the clocks know
};

struct Span {
  int begin = 0;
  int end = 0;
  int writer = -1;  // of an input; -1: no graph
};

struct ReplayGraph {
  GraphKey key;
  enum { kAnnounced, kLive, kRemoved, kDropped } state = kAnnounced;
  std::vector<Span> writes;
  std::vector<Span> inputs;
  int added = 0;  // number of earlier replays
  int latest = -1;

  [[nodiscard]] bool writes_byte(int byte) const {
    return std::any_of(writes.begin(), writes.end(), [&](const Span& s) { return s.begin <= byte && byte < s.end; });
  }
  [[nodiscard]] bool reads_byte(int byte) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Span& s) { return s.begin <= byte && byte < s.end; });
  }
};

struct Byte {
  int writer = -1;           // last replay that wrote it
  std::vector<int> readers;  // replays that read it since
};

class Program {
 public:
  Program(std::uint64_t seed, ReplayCounts* counts)
      : random_(seed), counts_(counts), clocks_know_(!random_.one_in(4)), one_stream_(random_.one_in(4)) {}

  std::string run() {
    const int steps = 30 + random_.below(60);
    for (int i = 0; i < steps && failure_.empty(); ++i) step();
    return failure_;
  }

 private:
  static std::uintptr_t address(int byte) { return kBase + static_cast<std::uintptr_t>(byte); }
  ReplayGraph& graph(int number) { return graphs_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] const Replay& replay(int number) const { return replays_[static_cast<std::size_t>(number)]; }
  std::size_t any_stream() { return one_stream_ ? 0 : static_cast<std::size_t>(random_.below(kStreams)); }

  void step() {
    const int what = random_.below(16);
    if (what < 2 || live_ == 0) return announce();
    if (what == 2) return remove();
    if (announced_ >= 0 && random_.one_in(8)) return conclude();
    if (what < 6) return wait();
    if (what == 6) return complete();
    attempt(any_live(), any_stream());
  }

  int any_live() {
    for (;;) {
      const int number = random_.below(static_cast<int>(graphs_.size()));
      if (graph(number).state == ReplayGraph::kLive) return number;
    }
  }

  Span any_span(int begin, int end) {
    const int first = begin + random_.below(end - begin);
    return {first, first + 1 + random_.below(std::min(end - first, 12)), -1};
  }

  // Announces a graph that is added immediately, or after others that may read its output.
  void announce() {
    if (live_ == kMaxLive) return remove();
    ReplayGraph made;
    for (int i = 1 + random_.below(3); i > 0; --i) made.writes.push_back(any_span(0, kBytes));
    made.key = order_.announce("g" + std::to_string(graphs_.size()));
    graphs_.push_back(std::move(made));
    const int number = static_cast<int>(graphs_.size()) - 1;
    if (announced_ < 0 && random_.one_in(4)) {
      announced_ = number;
    } else {
      add(number);
    }
  }

  // Adds or drops the announced graph.
  void conclude() {
    const int number = std::exchange(announced_, -1);
    if (live_ < kMaxLive && !random_.one_in(3)) return add(number);
    ReplayGraph& dropped = graph(number);
    if (order_.remove(dropped.key)) failure_ = "a graph that was only announced was taken for one that was added";
    dropped.state = ReplayGraph::kDropped;
    for (ReplayGraph& other : graphs_) {
      for (Span& input : other.inputs) input.writer = input.writer == number ? -1 : input.writer;
    }
  }

  void add(int number) {
    ReplayGraph& made = graph(number);
    std::vector<ReplayRange> writes;
    std::vector<GraphInput> inputs;
    for (const Span& span : made.writes) writes.push_back({address(span.begin), address(span.end)});
    for (int i = random_.below(3); i > 0; --i) {
      // Also a removed graph: its output stays.
      const int writer =
          random_.one_in(4) || live_ == 0 ? random_.below(static_cast<int>(graphs_.size())) : last_live(any_live());
      if (writer == number) continue;
      const auto& written = graph(writer).writes;
      const Span& in = written[static_cast<std::size_t>(random_.below(static_cast<int>(written.size())))];
      Span input = any_span(in.begin, in.end);
      const bool has_writer = graph(writer).state != ReplayGraph::kDropped && !random_.one_in(16);
      if (has_writer) input.writer = writer;
      made.inputs.push_back(input);
      inputs.push_back({{address(input.begin), address(input.end)}, has_writer ? graph(writer).key : GraphKey()});
    }
    order_.add(made.key, std::move(writes), inputs);
    made.state = ReplayGraph::kLive;
    made.added = static_cast<int>(replays_.size());
    ++live_;
  }
  [[nodiscard]] int last_live(int otherwise) const {
    const bool is_live =
        last_replayed_ >= 0 && graphs_[static_cast<std::size_t>(last_replayed_)].state == ReplayGraph::kLive;
    return is_live ? last_replayed_ : otherwise;
  }

  void remove() {
    ReplayGraph& gone = graph(any_live());
    if (!order_.remove(gone.key)) failure_ = "a graph that was added was taken for one only announced";
    gone.state = ReplayGraph::kRemoved;
    --live_;
  }

  void wait() {
    const std::size_t by = any_stream();
    const std::size_t on = any_stream();
    before_[by].merge(before_[on]);
    known_[by].merge(known_[on]);
  }

  // The host waits for a stream; work before its work is complete too.
  void complete() {
    const std::size_t on = any_stream();
    complete_.merge(before_[on]);
    known_complete_.merge(known_[on]);
  }

  void attempt(int number, std::size_t on) {
    const ReplayGraph& g = graph(number);
    const auto knows = [&](StreamId stream, Tick tick) {
      const auto at = static_cast<int>(tick.value());
      return at <= known_[on].ticks[stream.value()] || at <= known_complete_.ticks[stream.value()];
    };
    const auto refusal = order_.refusal(g.key, StreamId(static_cast<std::uint32_t>(on)), knows);
    if (counts_ != nullptr) ++(refusal.has_value() ? counts_->refused : counts_->accepted);
    const bool is_bad = has_bad_input(g) || has_race(number, on);
    if (!refusal.has_value() && is_bad) failure_ = "a bad replay passed";
    if (refusal.has_value() && !is_bad && (clocks_know_ || !may_race(number, on, knows))) {
      failure_ = "a good replay was refused: " + *refusal;
    }
    if (!refusal.has_value()) make(number, on);
  }

  [[nodiscard]] bool has_bad_input(const ReplayGraph& g) const {
    for (const Span& input : g.inputs) {
      for (int i = input.begin; i < input.end; ++i) {
        const int writer = bytes_[static_cast<std::size_t>(i)].writer;
        if (input.writer < 0 && writer >= g.added) return true;
        if (input.writer >= 0 && (writer < 0 || replay(writer).graph != input.writer)) return true;
      }
    }
    return false;
  }

  // Returns true if a replay would access a byte concurrently with a replay of another graph. The device orders it
  // after the latest one of the same graph.
  [[nodiscard]] bool has_race(int number, std::size_t on) {
    const ReplayGraph& g = graph(number);
    Clock before = before_[on];
    if (g.latest >= 0) before.merge(replay(g.latest).before);
    before.merge(complete_);
    const auto races = [&](int other) {
      return other >= 0 && replay(other).graph != number && replay(other).tick > before.ticks[replay(other).stream];
    };
    for (int i = 0; i < kBytes; ++i) {
      const Byte& byte = bytes_[static_cast<std::size_t>(i)];
      const bool writes = g.writes_byte(i);
      if ((writes || g.reads_byte(i)) && races(byte.writer)) return true;
      if (writes && std::any_of(byte.readers.begin(), byte.readers.end(), races)) return true;
    }
    return false;
  }

  // The literal rule: the latest replay of some other graph, made after the latest one of this graph, conflicts on some
  // byte and is not known to be over.
  template <class Knows>
  [[nodiscard]] bool may_race(int number, std::size_t on, const Knows& knows) {
    const ReplayGraph& g = graph(number);
    for (std::size_t i = 0; i < graphs_.size(); ++i) {
      const ReplayGraph& other = graphs_[i];
      if (static_cast<int>(i) == number || other.latest <= g.latest) continue;
      const Replay& last = replay(other.latest);
      const bool is_over = last.stream == on || knows(StreamId(static_cast<std::uint32_t>(last.stream)),
                                                      Tick(static_cast<std::uint64_t>(last.tick)));
      for (int byte = 0; byte < kBytes && !is_over; ++byte) {
        const bool writes = g.writes_byte(byte);
        if (other.writes_byte(byte) && (writes || g.reads_byte(byte))) return true;
        if (other.reads_byte(byte) && writes) return true;
      }
    }
    return false;
  }

  void make(int number, std::size_t on) {
    ReplayGraph& g = graph(number);
    if (g.latest >= 0) {
      before_[on].merge(replay(g.latest).before);
      if (clocks_know_) known_[on].merge(replay(g.latest).known);
    }
    Replay made{number, on, ++before_[on].ticks[on], {}, {}};
    known_[on].ticks[on] = made.tick;
    made.before = before_[on];
    made.known = known_[on];
    const int at = static_cast<int>(replays_.size());
    replays_.push_back(made);
    for (int i = 0; i < kBytes; ++i) {
      Byte& byte = bytes_[static_cast<std::size_t>(i)];
      if (g.reads_byte(i)) byte.readers.push_back(at);
      if (g.writes_byte(i)) byte = {at, {}};
    }
    g.latest = at;
    last_replayed_ = number;
    order_.replayed(g.key, StreamId(static_cast<std::uint32_t>(on)), Tick(static_cast<std::uint64_t>(made.tick)));
  }

  RandomNumbers random_;
  ReplayCounts* counts_;
  bool clocks_know_;  // that replays of one graph are ordered
  bool one_stream_;
  ReplayOrder order_;
  std::vector<ReplayGraph> graphs_;  // all graphs ever created
  std::vector<Replay> replays_;
  std::array<Byte, kBytes> bytes_;
  std::array<Clock, kStreams> before_;
  std::array<Clock, kStreams> known_;
  Clock complete_;
  Clock known_complete_;
  int live_ = 0;
  int announced_ = -1;
  int last_replayed_ = -1;
  std::string failure_;
};

}  // namespace

std::string check_replay_program(std::uint64_t seed, ReplayCounts* counts) { return Program(seed, counts).run(); }

}  // namespace tessera::memory::testing
