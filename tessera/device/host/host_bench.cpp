// Measures the host device: enqueueing work on a stream whose thread is busy, and replaying graphs of empty nodes.
#include <atomic>
#include <chrono>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

constexpr int kNodes = 1000;

double nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

TESSERA_BENCH(host_enqueue) {
  if (!context.wants("host_enqueue")) return;
  const Device device = make_host_device();
  const Stream stream = device.create_stream();
  std::uint64_t sink = 0;
  auto sample = [&]() -> double {
    std::atomic<bool> go{false};
    stream.run([&go] {
      while (!go.load(std::memory_order_acquire)) __builtin_ia32_pause();
    });
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kNodes; ++i) stream.run([&sink] { ++sink; });
    const double spent = nanoseconds_since(start);
    go = true;
    stream.synchronize();
    return spent / kNodes;
  };
  context.measure({.name = "host_enqueue", .ours = sample, .must = 300});
  bench::do_not_optimize(sink);
}

TESSERA_BENCH(host_inline_run) {
  if (!context.wants("host_inline_run")) return;
  const Stream stream = make_host_device().default_stream();
  std::uint64_t sink = 0;
  context.measure({.name = "host_inline_run", .ours = [&] { stream.run([&sink] { ++sink; }); }});
  bench::do_not_optimize(sink);
}

// A chain, or two parallel chains, of empty nodes.
GraphExec empty_graph(const Device& device, int width) {
  std::vector<Stream> streams;
  for (int i = 0; i < width; ++i) streams.push_back(device.create_stream());
  const Event event = device.create_event();
  streams[0].begin_capture();
  streams[0].record(event);
  for (int i = 1; i < width; ++i) streams[i].wait(event);
  for (int i = 0; i < kNodes; ++i) streams[i % width].run([] {}, {.label = "empty"});
  for (int i = 1; i < width; ++i) {
    streams[i].record(event);
    streams[0].wait(event);
  }
  return streams[0].end_capture().instantiate();
}

TESSERA_BENCH(host_graph_replay) {
  const Device device = make_host_device();
  const Stream stream = device.default_stream();
  for (const int width : {1, 2}) {
    const std::string name = width == 1 ? "host_graph_replay_1000_chain" : "host_graph_replay_1000_2wide";
    if (!context.wants(name)) continue;
    const GraphExec exec = empty_graph(device, width);
    context.measure({.name = name,
                     .unit = "us",
                     .ours =
                         [&] {
                           exec.launch(stream);
                           stream.synchronize();
                         },
                     .must = 20});
  }
}

}  // namespace
}  // namespace tessera::device::host
