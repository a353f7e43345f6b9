// Random programs of several streams, with events, values in memory, copies, kernels and graphs. Their results must
// equal those of the same program run serially.
//
// The generator knows which work must be ordered (writers and readers of each buffer) and adds an edge only if the
// order is not known yet, so that a device that drops any edge computes a different result. Most programs run seeded,
// some of them twice to check that the order repeats; the others run on real threads and inline.
//
//   random_program_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"

namespace tessera::device::host {
namespace {

constexpr int kBuffers = 6;
constexpr int kWords = 48;
constexpr std::size_t kBufferNbytes = kWords * sizeof(std::uint64_t);

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 99) {}
  int below(int bound) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(bound));
  }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

void mix(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b, std::uint32_t constant) {
  for (int i = 0; i < kWords; ++i) {
    to[i] = (to[i] * 0xD1342543DE82EF95ull + a[i]) ^ ((b[(i + 1) % kWords] << 7) + constant);
  }
}

void mix_kernel(const LaunchConfig&, void* const* args) {
  mix(*static_cast<std::uint64_t**>(args[0]), *static_cast<const std::uint64_t**>(args[1]),
      *static_cast<const std::uint64_t**>(args[2]), *static_cast<std::uint32_t*>(args[3]));
}

// One piece of work on the buffers; the same on the device and in the serial program.
struct Work {
  enum Kind { kKernel, kRun, kCopy, kRows, kFill, kKinds };
  int kind;
  int to;
  int a;
  int b;
  std::uint32_t constant;

  static Work random(Random& random) {
    Work work{random.below(kKinds), random.below(kBuffers), random.below(kBuffers), random.below(kBuffers),
              static_cast<std::uint32_t>(random.below(1 << 30))};
    if (work.a == work.to) work.a = (work.a + 1) % kBuffers;  // a copy onto itself would overlap
    return work;
  }
  [[nodiscard]] bool mixes() const { return kind == kKernel || kind == kRun; }
  [[nodiscard]] std::vector<int> read() const {
    if (mixes()) return {a, b};
    return kind == kFill ? std::vector<int>{} : std::vector<int>{a};
  }

  void apply(std::uint64_t* base) const {
    const auto at = [&](int buffer) { return base + buffer * kWords; };
    if (mixes()) mix(at(to), at(a), at(b), constant);
    if (kind == kCopy) std::memcpy(at(to), at(a), kBufferNbytes);
    if (kind == kRows) {
      for (int row = 0; row < 4; ++row) std::memcpy(at(to) + row * 8, at(a) + row * 12, 5 * sizeof(std::uint64_t));
    }
    if (kind == kFill) {
      for (int i = 0; i < kWords; ++i) reinterpret_cast<std::uint32_t*>(at(to))[i] = constant;
    }
  }

  void issue(const Stream& stream, const Kernel& kernel, std::uint64_t* base) const {
    const auto at = [&](int buffer) { return base + buffer * kWords; };
    const std::array touched{updates(at(to), kBufferNbytes), reads(at(a), kBufferNbytes), reads(at(b), kBufferNbytes)};
    const LaunchInfo info{.label = "mix", .accesses = touched};
    if (kind == kKernel) {
      const std::uint64_t* first = at(a);
      const std::uint64_t* second = at(b);
      std::uint64_t* target = at(to);
      stream.launch(kernel, {}, KernelArgs(target, first, second, constant), info);
    } else if (kind == kRun) {
      stream.run([target = at(to), first = at(a), second = at(b), c = constant] { mix(target, first, second, c); },
                 info);
    } else if (kind == kCopy) {
      stream.copy(at(to), at(a), kBufferNbytes);
    } else if (kind == kRows) {
      stream.copy_2d(at(to), 64, at(a), 96, 40, 4);
    } else {
      stream.fill(at(to), constant, 4, kWords);
    }
  }
};

// A point: the n-th operation of a lane (a stream, or a stream inside a capture).
struct Moment {
  int lane = -1;
  int at = 0;
};

// The known order, and the order that the buffers require.
class Order {
 public:
  explicit Order(int lanes) : known_(static_cast<std::size_t>(lanes), std::vector<int>(lanes, 0)) {}
  using Clock = std::vector<int>;

  [[nodiscard]] Clock& clock(int lane) { return known_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] bool covers(int lane, Moment moment) {
    return moment.lane < 0 || clock(lane)[static_cast<std::size_t>(moment.lane)] >= moment.at;
  }
  void merge(int lane, const Clock& other) {
    for (std::size_t i = 0; i < other.size(); ++i) clock(lane)[i] = std::max(clock(lane)[i], other[i]);
  }
  Moment step(int lane) { return {lane, ++clock(lane)[static_cast<std::size_t>(lane)]}; }

  // Calls `edge(moment)` for each moment that `lane` must wait for before it accesses the buffers.
  void demand(int lane, const std::vector<int>& read, const std::vector<int>& written,
              const std::function<void(Moment)>& edge) {
    const auto want = [&](Moment moment) {
      if (!covers(lane, moment)) edge(moment);
    };
    for (const int buffer : read) want(writer_[buffer]);
    for (const int buffer : written) {
      want(writer_[buffer]);
      for (const Moment reader : readers_[buffer]) want(reader);
    }
  }
  void touched(Moment by, const std::vector<int>& read, const std::vector<int>& written) {
    for (const int buffer : read) readers_[buffer].push_back(by);
    for (const int buffer : written) {
      writer_[buffer] = by;
      readers_[buffer].clear();
    }
  }

 private:
  std::vector<Clock> known_;
  Moment writer_[kBuffers];
  std::vector<Moment> readers_[kBuffers];
};

class Program {
 public:
  Program(const Device& device, std::uint64_t seed, bool is_checked)
      : device_(device),
        random_(seed),
        is_checked_(is_checked),
        kernel_(device.host_kernel("mix", &mix_kernel)),
        range_(device.reserve(device.properties().granularity)),
        pinned_(device.allocate_pinned(4096)),
        order_(0) {
    range_.map(0, device.create_memory(device.properties().granularity));
    base_ = reinterpret_cast<std::uint64_t*>(range_.data());
    const int lanes = 2 + random_.below(3);
    for (int i = 0; i < lanes; ++i) streams_.push_back(i == 0 ? device.default_stream() : device.create_stream());
    for (int i = 0; i < 5; ++i) events_.push_back({device.create_event(), {}, {}});
    order_ = Order(lanes);
  }

  // Returns true if the device computed the same result as the serial program.
  bool run() {
    const int steps = 25 + random_.below(30);
    for (int i = 0; i < steps; ++i) {
      if (random_.one_in(9)) {
        graph_step();
      } else if (random_.one_in(8)) {
        record(pick_event(), random_.below(lanes()));  // moves an event that earlier waits used
      } else {
        work_step();
      }
    }
    device_.synchronize();
    return std::memcmp(base_, expected_.data(), sizeof expected_) == 0;
  }

 private:
  struct KnownEvent {
    Event event;
    Moment moment;       // moment of the latest record
    Order::Clock clock;  // order known there
  };
  struct Captured {
    Graph graph;
    std::vector<Work> works;  // in serial order
    std::vector<int> read;
    std::vector<int> written;
    KnownEvent* external = nullptr;  // recorded when all work is done
  };

  [[nodiscard]] int lanes() const { return static_cast<int>(streams_.size()); }
  [[nodiscard]] const Stream& stream(int lane) const { return streams_[static_cast<std::size_t>(lane)]; }
  KnownEvent& pick_event() {
    return events_[static_cast<std::size_t>(random_.below(static_cast<int>(events_.size())))];
  }

  void record(KnownEvent& known, int lane) {
    known.moment = order_.step(lane);
    stream(lane).record(known.event);
    known.clock = order_.clock(lane);
  }

  // Orders the next work of `lane` after `moment`.
  void add_edge(int lane, Moment moment) {
    if (order_.covers(lane, moment)) return;
    for (KnownEvent& known : events_) {
      if (known.moment.lane != moment.lane || known.moment.at < moment.at) continue;
      stream(lane).wait(known.event);
      order_.merge(lane, known.clock);
      return;
    }
    if (!is_checked_ && words_used_ < 512 && random_.one_in(4)) {
      auto* word = reinterpret_cast<std::uint64_t*>(pinned_.data()) + words_used_++;
      stream(moment.lane).write_value(word, 1);
      stream(lane).wait_value(word, 1);
      order_.merge(lane, order_.clock(moment.lane));
      return;
    }
    KnownEvent& known = pick_event();
    record(known, moment.lane);
    stream(lane).wait(known.event);
    order_.merge(lane, known.clock);
  }

  void work_step() {
    const Work work = Work::random(random_);
    const int lane = random_.below(lanes());
    order_.demand(lane, work.read(), {work.to}, [&](Moment moment) { add_edge(lane, moment); });
    work.issue(stream(lane), kernel_, base_);
    work.apply(expected_.data());
    order_.touched(order_.step(lane), work.read(), {work.to});
    if (random_.one_in(4)) record(pick_event(), lane);
  }

  // Captures `works`, or new work if it is empty. `shape` determines streams and edges, so that two captures with the
  // same shape can replace each other.
  Captured capture(std::uint64_t shape_seed, std::uint64_t work_seed) {
    Random shape(shape_seed);
    Random constants(work_seed);
    Captured captured;
    const int width = 1 + shape.below(std::min(3, lanes()));
    const int first = shape.below(lanes());
    const auto lane_stream = [&](int lane) -> const Stream& { return stream((first + lane) % lanes()); };
    const Stream& origin = lane_stream(0);
    const Event inside = device_.create_event();
    Order order(width);
    std::vector<bool> joined(static_cast<std::size_t>(width), false);
    const auto edge = [&](int to, int from) {
      lane_stream(from).record(inside);
      lane_stream(to).wait(inside);
      order.merge(to, order.clock(from));
    };
    origin.begin_capture();
    joined[0] = true;
    const int count = 1 + shape.below(8);
    for (int i = 0; i < count; ++i) {
      Work work = Work::random(shape);
      work.constant = static_cast<std::uint32_t>(constants.below(1 << 30));
      const int lane = shape.below(width);
      if (!joined[static_cast<std::size_t>(lane)]) edge(lane, 0);
      joined[static_cast<std::size_t>(lane)] = true;
      order.demand(lane, work.read(), {work.to}, [&](Moment moment) {
        if (!order.covers(lane, moment)) edge(lane, moment.lane);
      });
      work.issue(lane_stream(lane), kernel_, base_);
      order.touched(order.step(lane), work.read(), {work.to});
      captured.works.push_back(work);
      for (const int buffer : work.read()) captured.read.push_back(buffer);
      captured.written.push_back(work.to);
    }
    for (int lane = 1; lane < width; ++lane) {
      if (joined[static_cast<std::size_t>(lane)]) edge(0, lane);
    }
    if (shape.one_in(3)) {
      captured.external = &events_[static_cast<std::size_t>(shape.below(static_cast<int>(events_.size())))];
      origin.record(captured.external->event, EventUse::kExternal);
    }
    captured.graph = origin.end_capture();
    return captured;
  }

  void launch(const GraphExec& exec, const Captured& captured, int lane) {
    order_.demand(lane, captured.read, captured.written, [&](Moment moment) { add_edge(lane, moment); });
    exec.launch(stream(lane));
    for (const Work& work : captured.works) work.apply(expected_.data());
    const Moment moment = order_.step(lane);
    order_.touched(moment, captured.read, captured.written);
    if (captured.external != nullptr) {
      captured.external->moment = moment;
      captured.external->clock = order_.clock(lane);
    }
    last_launch_ = moment;
    last_clock_ = order_.clock(lane);
  }

  void graph_step() {
    const auto shape = static_cast<std::uint64_t>(random_.below(1 << 30));
    Captured captured = capture(shape, 1);
    constexpr InstantiateOptions::Parallel kWays[] = {InstantiateOptions::Parallel::kAuto,
                                                      InstantiateOptions::Parallel::kNever,
                                                      InstantiateOptions::Parallel::kAlways};
    const Graph graph = random_.one_in(3) ? captured.graph.clone() : captured.graph;
    const GraphExec exec = graph.instantiate({.parallel = kWays[random_.below(3)]});
    const int launches = 1 + random_.below(3);
    for (int i = 0; i < launches; ++i) {
      const int lane = random_.below(lanes());
      // Launches of one executable are ordered without an edge of ours; the clocks of a checked device do not know
      // that.
      if (i > 0 && !is_checked_) order_.merge(lane, last_clock_);
      launch(exec, captured, lane);
      if (i == 0 && random_.one_in(3)) {
        captured = capture(shape, 2 + static_cast<std::uint64_t>(random_.below(1000)));
        const UpdateResult result = exec.update(captured.graph);
        TESSERA_CHECK(result.updated, "update with the same shape was refused: ", result.reason);
      }
    }
  }

  Device device_;
  Random random_;
  bool is_checked_;
  Kernel kernel_;
  AddressRange range_;
  PinnedMemory pinned_;
  Order order_;
  std::vector<Stream> streams_;
  std::vector<KnownEvent> events_;
  std::uint64_t* base_ = nullptr;
  std::array<std::uint64_t, kBuffers * kWords> expected_{};
  std::size_t words_used_ = 0;
  Moment last_launch_;
  Order::Clock last_clock_;
};

// Runs the program of `seed` on a seeded device; `order` is a hash of the order.
bool run_seeded(std::uint64_t seed, std::uint64_t& order) {
  const auto scheduler = SeededScheduler::create(seed);
  const SeededScheduler::Participant main(scheduler, "main");
  const bool is_checked = seed % 5 == 0;
  bool is_right = false;
  {
    const Device device = make_host_device({.mode = Mode::kSeeded, .scheduler = scheduler, .checked = is_checked});
    is_right = Program(device, seed, is_checked).run();
  }
  order = scheduler->order_hash();
  return is_right;
}

bool run_one(std::uint64_t seed) {
  if (seed % 8 < 2) {
    return Program(make_host_device({.mode = seed % 8 == 0 ? Mode::kThreaded : Mode::kInline}), seed, false).run();
  }
  std::uint64_t order = 0;
  if (!run_seeded(seed, order)) return false;
  if (seed % 16 != 5) return true;
  std::uint64_t again = 0;
  if (!run_seeded(seed, again)) return false;
  if (order != again)
    std::fprintf(stderr, "seed %llu: the order did not repeat\n", static_cast<unsigned long long>(seed));
  return order == again;
}

}  // namespace
}  // namespace tessera::device::host

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "random programs compared with their serial runs", [](std::uint64_t seed) {
    return std::string(tessera::device::host::run_one(seed) ? "" : "the data is not that of the serial program");
  });
}
