// Measures the overhead over raw driver calls on a GPU: the same call through a Stream and directly to the driver, in
// turn. Queues are drained before each sample, so that neither side waits for room in them.
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/testing/empty_kernel.h"
#include "tessera/device/device.h"

namespace tessera::device::cuda {
namespace {

using testing::kEmptyKernel;

// Launches per sample; far fewer than a queue holds.
constexpr std::size_t kLaunches = 200;

void must(CUresult result) {
  if (result != CUDA_SUCCESS) TESSERA_THROW(DeviceError, "driver error ", static_cast<int>(result));
}

// The same kernel and stream for both sides.
struct Setup {
  Device device = Device::get("cuda:0");
  Stream stream = device.create_stream({.name = "bench"});
  Kernel kernel = device.load_module(std::as_bytes(std::span(kEmptyKernel))).kernel("tessera_empty");
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream raw = static_cast<CUstream>(stream.native());

  Setup() {
    must(driver().cuModuleLoadDataEx(&module, kEmptyKernel, 0, nullptr, nullptr));
    must(driver().cuModuleGetFunction(&function, module, "tessera_empty"));
  }
  ~Setup() {
    stream.synchronize();
    driver().cuModuleUnload(module);
  }
  void launch_raw() const { must(driver().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, raw, nullptr, nullptr)); }
  void drain() const { must(driver().cuStreamSynchronize(raw)); }
};

void measure_launch(bench::Context& context, const Setup& setup) {
  const LaunchConfig config;
  const KernelArgs args;
  context.measure({.name = "cuda_launch",
                   .ours = [&] { setup.stream.launch(setup.kernel, config, args); },
                   .reference_name = "cuLaunchKernel",
                   .reference = [&] { setup.launch_raw(); },
                   .must_ratio = 1 / 1.10,
                   .calls = kLaunches,
                   .before = [&] { setup.drain(); }});
}

void measure_replay(bench::Context& context, const Setup& setup) {
  if (!context.wants("cuda_graph_replay_1000")) return;
  setup.stream.begin_capture();
  for (int i = 0; i < 1000; ++i) setup.stream.launch(setup.kernel, {}, KernelArgs());
  const GraphExec exec = setup.stream.end_capture().instantiate();
  CUgraph graph = nullptr;
  CUgraphExec raw_exec = nullptr;
  must(driver().cuStreamBeginCapture(setup.raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < 1000; ++i) setup.launch_raw();
  must(driver().cuStreamEndCapture(setup.raw, &graph));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  must(driver().cuGraphInstantiateWithParams(&raw_exec, graph, &params));
  context.measure({.name = "cuda_graph_replay_1000",
                   .unit = "us",
                   .ours =
                       [&] {
                         exec.launch(setup.stream);
                         setup.drain();
                       },
                   .reference_name = "cuGraphLaunch",
                   .reference =
                       [&] {
                         must(driver().cuGraphLaunch(raw_exec, setup.raw));
                         setup.drain();
                       },
                   .must_ratio = 1 / 1.03,
                   .calls = 5});
  driver().cuGraphExecDestroy(raw_exec);
  driver().cuGraphDestroy(graph);
}

void measure_capture_info(bench::Context& context, const Setup& setup) {
  if (!context.wants("cuda_capture_info")) return;
  setup.stream.begin_capture();
  setup.stream.launch(setup.kernel, {}, KernelArgs());
  context.measure({.name = "cuda_capture_info",
                   .ours = [&] { bench::do_not_optimize(setup.stream.capture_info()); },
                   .reference_name = "cuStreamGetCaptureInfo",
                   .reference =
                       [&] {
                         CUstreamCaptureStatus status{};
                         cuuint64_t id = 0;
                         CUgraph graph = nullptr;
                         const CUgraphNode* nodes = nullptr;
                         const CUgraphEdgeData* edges = nullptr;
                         std::size_t count = 0;
                         must(driver().cuStreamGetCaptureInfo(setup.raw, &status, &id, &graph, &nodes, &edges, &count));
                         bench::do_not_optimize(count);
                       }});
  setup.stream.abort_capture();
}

void measure_copy(bench::Context& context, const Setup& setup) {
  if (!context.wants("cuda_copy_64MiB")) return;
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  AddressRange range = setup.device.reserve(2 * kBytes);
  range.map(0, setup.device.create_memory(2 * kBytes));
  std::byte* to = range.data();
  std::byte* from = range.data() + kBytes;
  setup.stream.fill(from, 1, 1, kBytes);
  setup.drain();
  context.measure({.name = "cuda_copy_64MiB",
                   .unit = "GB/s",
                   .per = 2 * static_cast<double>(kBytes),  // read and written
                   .ours =
                       [&] {
                         setup.stream.copy(to, from, kBytes);
                         setup.drain();
                       },
                   .reference_name = "cuMemcpyAsync",
                   .reference =
                       [&] {
                         must(driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                                     reinterpret_cast<CUdeviceptr>(from), kBytes, setup.raw));
                         setup.drain();
                       },
                   .calls = 5});
  setup.drain();
}

TESSERA_BENCH(cuda) {
  try {
    (void)Device::get("cuda:0");
  } catch (const Error& error) {
    context.skip(error.message());
    return;
  }
  const Setup setup;
  context.describe_machine("gpu", setup.device.properties().description);
  measure_launch(context, setup);
  measure_replay(context, setup);
  measure_capture_info(context, setup);
  measure_copy(context, setup);
}

}  // namespace
}  // namespace tessera::device::cuda
