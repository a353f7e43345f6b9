// A tour of the device layer on every device of this machine: overlap by streams and events, the same work as a graph,
// an asynchronous error, and memory statistics. `scripts/demo --tour` runs it.
#include <tessera/tessera.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace tessera;

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

constexpr std::size_t kChunks = 8;
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;

// Two staging buffers that alternate: while one chunk is copied out, the next is filled.
struct Pipeline {
  Device device;
  Stream fill = device.create_stream({.name = "fill"});
  Stream copy = device.create_stream({.name = "copy"});
  device::AddressRange range = device.reserve(2 * kChunkBytes);
  device::PinnedMemory result = device.allocate_pinned(kChunks * kChunkBytes);
  std::vector<Event> filled, copied;

  explicit Pipeline(const Device& on) : device(on) {
    range.map(0, device.create_memory(2 * kChunkBytes));
    for (std::size_t i = 0; i < kChunks; ++i) {
      filled.push_back(device.create_event());
      copied.push_back(device.create_event());
    }
  }

  void enqueue(bool overlapped) {
    const Stream& out = overlapped ? copy : fill;
    if (overlapped) {  // joins the copy stream to a capture of the fill stream, and orders it after earlier work
      fill.record(copied[0]);
      copy.wait(copied[0]);
    }
    for (std::size_t i = 0; i < kChunks; ++i) {
      std::byte* staging = range.data() + (i % 2) * kChunkBytes;
      if (overlapped && i >= 2) fill.wait(copied[i - 2]);
      fill.fill(staging, static_cast<std::uint32_t>(i + 1), 4, kChunkBytes / 4);
      if (overlapped) {
        fill.record(filled[i]);
        out.wait(filled[i]);
      }
      out.copy(result.data() + i * kChunkBytes, staging, kChunkBytes);
      if (overlapped) out.record(copied[i]);
    }
    if (overlapped) fill.wait(copied[kChunks - 1]);
  }

  bool is_right() {
    for (std::size_t i = 0; i < kChunks; ++i) {
      std::uint32_t last = 0;
      std::memcpy(&last, result.data() + (i + 1) * kChunkBytes - 4, 4);
      if (last != i + 1) return false;
    }
    std::memset(result.data(), 0, result.nbytes());
    return true;
  }
};

bool tour(const Device& device) {
  const auto& what = device.properties();
  std::printf("\n%s: %s, %.1f GiB, driver %s\n", device.name().c_str(), what.description.c_str(),
              static_cast<double>(what.memory_nbytes) / (1 << 30), what.driver.c_str());
  Pipeline pipeline(device);
  bool ok = true;
  auto timed = [&](const char* label, auto&& work) {
    work();  // warm-up
    pipeline.fill.synchronize();
    ok = pipeline.is_right() && ok;
    const auto start = Clock::now();
    work();
    pipeline.fill.synchronize();
    const double spent = milliseconds(start);
    const bool right = pipeline.is_right();
    ok = ok && right;
    std::printf("  %-44s %8.2f ms   %s\n", label, spent, right ? "right" : "WRONG");
  };
  timed("fill and copy 8 chunks on one stream", [&] { pipeline.enqueue(false); });
  timed("the same on two streams, ordered by events", [&] { pipeline.enqueue(true); });

  pipeline.fill.begin_capture();
  pipeline.enqueue(true);
  const auto graph = pipeline.fill.end_capture();
  const auto replay = graph.instantiate();
  timed("the same, captured once and replayed", [&] { replay.launch(pipeline.fill); });
  std::printf("  the graph has %zu nodes\n", graph.nodes().size());

  const Stream failing = device.create_stream({.name = "failing"});
  failing.run([] { throw std::runtime_error("the kernel divided by zero"); });
  try {
    failing.synchronize();
    ok = false;
  } catch (const std::exception& error) {
    std::printf("  an error waits to be seen: %s\n", error.what());
  }
  const auto use = device.memory_use();
  std::printf("  memory created here: %.0f MiB of %.1f GiB\n", static_cast<double>(use.own_nbytes) / (1 << 20),
              static_cast<double>(use.total_nbytes) / (1 << 30));
  return ok;
}

}  // namespace

int main() {
  bool ok = true;
  for (const Device& device : Device::all()) ok = tour(device) && ok;
  for (const auto& absent : Device::absent()) {
    std::printf("\n%s: not here (%s)\n", absent.kind.c_str(), absent.reason.c_str());
  }
  return ok ? 0 : 1;
}
