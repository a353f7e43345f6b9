// Memory in graph captures: reuse inside the capture, graphs that share a pool, and the rejection of a replay that
// would read overwritten memory.
#include <tessera/tessera.h>

#include <cstdio>

using tessera::memory::Allocator;
using tessera::memory::Buffer;
using tessera::memory::CapturedGraph;
using tessera::memory::GraphCapture;
using tessera::memory::Pool;

int main() {
  const tessera::Device device = tessera::Device::get("host");
  const Allocator memory = Allocator::of(device);
  const tessera::Stream stream = device.create_stream();
  const Pool pool = memory.create_pool({.name = "steps"});
  constexpr std::size_t kNbytes = 1 << 20;

  Buffer made;
  CapturedGraph produce;
  {
    GraphCapture capture(pool, stream, "produce");
    made = memory.allocate(kNbytes, stream);
    stream.fill(made.data(), 7, 1, kNbytes);
    produce = capture.end();
  }
  Buffer result;
  CapturedGraph consume;
  {
    GraphCapture capture(pool, stream, "consume");
    made.use_on(stream);  // declares an input: the graph reads the output of 'produce'
    result = memory.allocate(kNbytes, stream);
    stream.copy(result.data(), made.data(), kNbytes);
    consume = capture.end();
  }
  made.reset();
  CapturedGraph overwrite;
  {
    GraphCapture capture(pool, stream, "overwrite");
    for (int step = 0; step < 100; ++step) {
      const Buffer scratch = memory.allocate(kNbytes, stream);  // all hundred iterations use one block
      stream.fill(scratch.data(), 1, 1, kNbytes);
    }
    overwrite = capture.end();
  }
  std::printf("three graphs in %zu MiB\n", static_cast<std::size_t>(pool.snapshot().totals().reserved_nbytes) >> 20);

  produce.replay(stream);
  consume.replay(stream);
  overwrite.replay(stream);
  int refused = 0;
  try {
    consume.replay(stream);
  } catch (const tessera::InvalidArgument& error) {
    std::printf("refused: %s\n", error.message().c_str());
    ++refused;
  }
  stream.synchronize();
  return refused == 1 ? 0 : 1;
}
