#include "tessera/memory/testing/workloads.h"

#include <array>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "tessera/memory/graph_capture.h"

namespace tessera::memory::workloads {
namespace {

using device::KernelArgs;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

void join(const Device& device, const Stream& waiter, const Stream& on) {
  const Event event = device.create_event();
  on.record(event);
  waiter.wait(event);
}

// A launch that reads `from` and writes `to`.
void launch(const Setup& setup, const Stream& stream, const std::byte* to, const std::byte* from) {
  stream.launch(setup.kernel, {}, KernelArgs(to, from, 0.5F));
}

// 64 live blocks and an order in which to replace them.
class Pairs {
 public:
  Pairs(const Allocator& allocator, const Stream& stream, std::size_t nbytes, unsigned seed)
      : allocator_(allocator), stream_(stream), nbytes_(nbytes), live_(64) {
    for (Buffer& one : live_) one = allocator_.allocate(nbytes_, stream_);
    std::mt19937 random(seed);
    for (auto& one : order_) one = static_cast<std::uint8_t>(random() % live_.size());
  }
  void step() {
    Buffer& one = live_[order_[at_++ % order_.size()]];
    one.reset();
    one = allocator_.allocate(nbytes_, stream_);
  }

 private:
  const Allocator& allocator_;
  const Stream& stream_;
  std::size_t nbytes_;
  std::vector<Buffer> live_;
  std::array<std::uint8_t, 4096> order_{};
  std::size_t at_ = 0;
};

std::optional<double> bound(double must) { return must > 0 ? std::optional(must) : std::nullopt; }

}  // namespace

void measure_pairs(bench::Context& context, const Setup& setup) {
  const struct {
    const char* name;
    std::size_t nbytes;
  } rows[] = {{"pair_512B", 512}, {"pair_64KiB", 64 * kKiB}, {"pair_2MiB", 2 * kMiB}, {"pair_64MiB", 64 * kMiB}};
  const Allocator allocator(setup.device);
  const Stream stream = setup.device.create_stream();
  for (const auto& row : rows) {
    if (!context.wants(setup.prefix + row.name)) continue;
    Pairs pairs(allocator, stream, row.nbytes, 7);
    context.measure({.name = setup.prefix + row.name, .ours = [&] { pairs.step(); }, .must = bound(setup.pair_must)});
  }
}

void measure_churn(bench::Context& context, const Setup& setup) {
  const std::string name = setup.prefix + "churn_2000";
  if (!context.wants(name) && !context.wants(name + "_reserved")) return;
  const Allocator allocator(setup.device);
  const Stream stream = setup.device.create_stream();
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> log_size(std::log(512.0), std::log(8.0 * kMiB));
  const auto size = [&] { return static_cast<std::size_t>(std::exp(log_size(random))); };
  std::vector<Buffer> live(2000);
  for (Buffer& one : live) one = allocator.allocate(size(), stream);
  std::vector<std::size_t> sizes(200000);
  std::vector<std::uint16_t> which(sizes.size());
  for (auto& one : sizes) one = size();
  for (auto& one : which) one = static_cast<std::uint16_t>(random() % live.size());
  std::size_t at = 0;
  const auto step = [&] {
    Buffer& one = live[which[at % which.size()]];
    one.reset();
    one = allocator.allocate(sizes[at % sizes.size()], stream);
    ++at;
  };
  for (int i = 0; i < 50000; ++i) step();
  context.measure({.name = name, .ours = step, .must = 150});
  for (int i = 0; i < 200000; ++i) step();
  const Statistics seen = allocator.statistics();
  const double ratio = static_cast<double>(seen.peak_reserved_nbytes) / static_cast<double>(seen.peak_live_nbytes);
  context.measure(
      {.name = name + "_reserved", .unit = "reserved/live", .ours = [ratio] { return ratio; }, .must = 1.08});
}

void measure_threads(bench::Context& context, const Setup& setup) {
  const std::string name = setup.prefix + "threads_16";
  if (!context.wants(name)) return;
  constexpr int kThreads = 16;
  constexpr std::size_t kSteps = 200000;
  const Allocator allocator(setup.device);
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(setup.device.create_stream());
  const auto run = [&](int threads) {
    return bench::run_together(threads, [&](int thread) {
      Pairs pairs(allocator, streams[static_cast<std::size_t>(thread)], 64 * kKiB, static_cast<unsigned>(thread));
      for (std::size_t i = 0; i < kSteps; ++i) pairs.step();
    });
  };
  run(kThreads);  // maps the required memory
  const bool has_cores = std::thread::hardware_concurrency() >= kThreads;
  if (!has_cores) context.skip("threads_16 has a bound only on 16 cores");
  context.measure({.name = name,
                   .unit = "x one thread",
                   .ours = [&] { return kThreads * run(1) / run(kThreads); },
                   .must = has_cores ? std::optional(8.0) : std::nullopt,
                   .better = bench::Better::kHigher});
}

namespace {

constexpr int kSteps = 200;
constexpr std::size_t kBlock = 4 * kMiB;

// Captures the side-stream steps once with memory from the allocator. Returns the reserved bytes of the pool.
std::size_t capture_allocating(const Setup& setup, const Allocator& allocator, const Pool& pool, const Stream& s1,
                               const Stream& s2, const std::vector<Event>& events) {
  GraphCapture capture(pool, s1, "side stream");
  Buffer y = allocator.allocate(kBlock, s1);
  std::size_t event = 0;
  const auto order = [&](const Stream& waiter, const Stream& on) {
    on.record(events[event]);
    waiter.wait(events[event++]);
  };
  for (int step = 0; step < kSteps; ++step) {
    Buffer t = allocator.allocate(kBlock, s1);
    launch(setup, s1, t.data(), y.data());
    order(s2, s1);
    Buffer u = allocator.allocate(kBlock, s2);
    launch(setup, s2, u.data(), t.data());
    t.use_on(s2);
    order(s1, s2);
    y.reset();
    y = allocator.allocate(kBlock, s1);
    launch(setup, s1, y.data(), u.data());
    u.use_on(s1);
  }
  return allocator.statistics().now.reserved_nbytes;  // the capture is dropped: only capturing is measured
}

// Captures the same steps on three existing buffers.
void capture_in_place(const Setup& setup, const std::vector<Buffer>& buffers, const Stream& s1, const Stream& s2,
                      const std::vector<Event>& events) {
  s1.begin_capture();
  std::size_t event = 0;
  const auto order = [&](const Stream& waiter, const Stream& on) {
    on.record(events[event]);
    waiter.wait(events[event++]);
  };
  for (int step = 0; step < kSteps; ++step) {
    launch(setup, s1, buffers[0].data(), buffers[2].data());
    order(s2, s1);
    launch(setup, s2, buffers[1].data(), buffers[0].data());
    order(s1, s2);
    launch(setup, s1, buffers[2].data(), buffers[1].data());
  }
  s1.abort_capture();
}

}  // namespace

void measure_side_stream(bench::Context& context, const Setup& setup) {
  const std::string name = setup.prefix + "capture_side_stream";
  if (!context.wants(name) && !context.wants(name + "_time")) return;
  const Stream s1 = setup.device.create_stream();
  const Stream s2 = setup.device.create_stream();
  std::vector<Event> events;
  for (int i = 0; i < 2 * kSteps; ++i) events.push_back(setup.device.create_event());
  {
    const Allocator allocator(setup.device);
    const Pool pool = allocator.create_pool();
    const auto reserved = static_cast<double>(capture_allocating(setup, allocator, pool, s1, s2, events)) / kMiB;
    context.measure({.name = name, .unit = "MiB", .ours = [reserved] { return reserved; }, .must = 16});
  }
  const Allocator allocator(setup.device);
  const Pool pool = allocator.create_pool();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(allocator.allocate(kBlock, s1));
  // Memory is mapped once: the time is that of capturing, as in a program with many graphs in one pool.
  context.measure({.name = name + "_time",
                   .unit = "us",
                   .ours = [&] { capture_allocating(setup, allocator, pool, s1, s2, events); },
                   .reference_name = "on buffers that are there",
                   .reference = [&] { capture_in_place(setup, buffers, s1, s2, events); },
                   .must_ratio = 1 / setup.capture_must,
                   .calls = 1});
}

void measure_random_capture(bench::Context& context, const Setup& setup) {
  const std::string name = setup.prefix + "capture_random";
  if (!context.wants(name)) return;
  const Allocator allocator(setup.device);
  const std::array streams{setup.device.create_stream(), setup.device.create_stream()};
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> size(64 * kKiB, 4 * kMiB);
  std::uniform_real_distribution<double> chance(0, 1);
  double ratio = 0;
  {
    GraphCapture capture(allocator, streams[0], "random");
    join(setup.device, streams[1], streams[0]);
    std::vector<Buffer> live;
    for (int op = 0; op < 10000; ++op) {
      const std::size_t at = random() % 2;
      const double kind = chance(random);
      if (kind < 0.1) {
        join(setup.device, streams[at], streams[1 - at]);
      } else if (kind < 0.2) {
        live.push_back(allocator.allocate(size(random), streams[at]));
      } else if (kind < 0.3 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        live.pop_back();
      } else if (!live.empty()) {
        const Buffer& used = live[random() % live.size()];
        used.use_on(streams[at]);
        launch(setup, streams[at], used.data(), used.data());
      }
    }
    const Statistics seen = allocator.statistics();
    ratio = static_cast<double>(seen.peak_reserved_nbytes) / static_cast<double>(seen.peak_live_nbytes);
  }
  context.measure({.name = name, .unit = "reserved/allocated", .ours = [ratio] { return ratio; }, .must = 1.5});
}

namespace {

// 50 steps of a training-like loop: gradients are computed on one stream and reduced on a second, weights are fetched
// on a third. If `is_apart` is false, everything is on one stream. Nothing runs until all is enqueued. Returns the peak
// of reserved bytes.
std::size_t run_ahead(const Setup& setup, bool is_apart) {
  const Allocator allocator(setup.device);
  const Stream main = setup.device.create_stream({.name = "main"});
  const Stream reduce = is_apart ? setup.device.create_stream({.name = "reduce"}) : main;
  const Stream fetch = is_apart ? setup.device.create_stream({.name = "fetch"}) : main;
  const Stream gate = setup.device.create_stream({.name = "gate"});
  const device::Hold hold = gate.hold(std::chrono::seconds(60));
  // On one stream there is nothing to join, and the queue of a driver holds only some hundred operations.
  const auto order = [&](const Stream& waiter, const Stream& on) {
    if (waiter.state() != on.state()) join(setup.device, waiter, on);
  };
  order(main, gate);
  if (is_apart) order(reduce, gate);
  if (is_apart) order(fetch, gate);
  const auto work = [&](const Stream& stream, const Buffer& buffer) { stream.fill(buffer.data(), 1, 1, 4 * kKiB); };
  for (int step = 0; step < 50; ++step) {
    std::vector<Buffer> activations;
    for (int layer = 0; layer < 2; ++layer) {  // few enough for the queue of a driver to hold 50 steps
      Buffer weight = allocator.allocate(6 * kMiB, fetch);
      work(fetch, weight);
      order(main, fetch);
      weight.use_on(main);
      activations.push_back(allocator.allocate(24 * kMiB, main));
      work(main, activations.back());
    }
    while (!activations.empty()) {
      const Buffer gradient = allocator.allocate(6 * kMiB, main);
      work(main, gradient);
      order(reduce, main);
      gradient.use_on(reduce);
      work(reduce, gradient);
      activations.pop_back();
    }
  }
  const std::size_t peak = allocator.statistics().peak_reserved_nbytes;
  hold.release();
  setup.device.synchronize();
  return peak;
}

}  // namespace

void measure_stale_cpu(bench::Context& context, const Setup& setup) {
  const std::string name = setup.prefix + "stale_cpu";
  if (!context.wants(name) && !context.wants(name + "_spread")) return;
  const auto alone = static_cast<double>(run_ahead(setup, false));
  std::size_t least = ~std::size_t{0};
  std::size_t most = 0;
  for (int run = 0; run < 20; ++run) {
    const std::size_t peak = run_ahead(setup, true);
    least = std::min(least, peak);
    most = std::max(most, peak);
  }
  const double ratio = static_cast<double>(most) / alone;
  const auto spread = static_cast<double>(most - least);
  context.measure({.name = name, .unit = "x one stream", .ours = [ratio] { return ratio; }, .must = 1.15});
  context.measure(
      {.name = name + "_spread", .unit = "bytes over 20 runs", .ours = [spread] { return spread; }, .must = 0});
}

void measure_replay_check(bench::Context& context, const Setup& setup) {
  const std::string name = setup.prefix + "replay_32";
  if (!context.wants(name)) return;
  const Allocator allocator(setup.device);
  const Stream stream = setup.device.create_stream();
  const Pool pool = allocator.create_pool({.name = "shared"});
  std::vector<CapturedGraph> graphs;
  std::vector<device::GraphExec> plain;
  for (std::size_t i = 1; i <= 32; ++i) {
    GraphCapture capture(pool, stream);
    const Buffer scratch = allocator.allocate(i * 64 * kKiB, stream);
    launch(setup, stream, scratch.data(), scratch.data());
    graphs.push_back(capture.end());
    plain.push_back(graphs.back().graph().instantiate());
  }
  std::size_t at = 0;
  std::size_t at_plain = 0;
  // Nothing runs while launches are timed: the execution of a replay is not measured.
  const Stream gate = setup.device.create_stream({.name = "gate"});
  device::Hold hold;
  const auto stop = [&] {
    hold.release();
    stream.synchronize();
    hold = gate.hold(std::chrono::seconds(60));
    join(setup.device, stream, gate);
  };
  context.measure({.name = name,
                   .ours = [&] { graphs[at++ % 32].replay(stream); },
                   .reference_name = "GraphExec::launch",
                   .reference = [&] { plain[at_plain++ % 32].launch(stream); },
                   .calls = 16,  // a stopped stream accepts few graphs before the driver waits
                   .before = stop});
  hold.release();
  stream.synchronize();
}

void measure_all(bench::Context& context, const Setup& setup) {
  measure_pairs(context, setup);
  measure_churn(context, setup);
  measure_threads(context, setup);
  measure_side_stream(context, setup);
  measure_random_capture(context, setup);
  measure_stale_cpu(context, setup);
  measure_replay_check(context, setup);
}

}  // namespace tessera::memory::workloads
