// Measures captures on the host device: a kernel node, a fork to another stream with its join, and a query of the
// capture state, which the allocator makes for each block that is allocated or freed inside a capture.
#include <chrono>

#include "tessera/base/testing/bench.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

constexpr int kOperations = 2000;

void do_nothing(const LaunchConfig&, void* const*) {}

// Returns the mean ns of `operation` in a capture of kOperations of them, without beginning and discarding the capture.
template <class Operation>
double captured(const Stream& stream, const Operation& operation) {
  stream.begin_capture();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kOperations; ++i) operation();
  const auto spent = std::chrono::steady_clock::now() - start;
  stream.abort_capture();
  return std::chrono::duration<double, std::nano>(spent).count() / kOperations;
}

TESSERA_BENCH(host_capture) {
  const Device device = make_host_device();
  const Stream stream = device.create_stream();
  const Stream side = device.create_stream();
  const Event fork = device.create_event();
  const Event join = device.create_event();
  const Kernel kernel = device.host_kernel("do_nothing", &do_nothing);
  int* from = nullptr;
  int* to = nullptr;
  const auto launch = [&] { stream.launch(kernel, {}, KernelArgs(to, from), {.label = "scale_rows"}); };
  context.measure({.name = "host_capture_launch", .ours = [&]() -> double { return captured(stream, launch); }});
  context.measure({.name = "host_capture_fork_join", .ours = [&]() -> double {
                     return captured(stream, [&] {
                       stream.record(fork);
                       side.wait(fork);
                       side.record(join);
                       stream.wait(join);
                     });
                   }});
  if (!context.wants("host_capture_info")) return;
  stream.begin_capture();
  launch();
  context.measure(
      {.name = "host_capture_info", .ours = [&] { bench::do_not_optimize(stream.capture_info()); }, .must = 30});
  stream.abort_capture();
}

}  // namespace
}  // namespace tessera::device::host
