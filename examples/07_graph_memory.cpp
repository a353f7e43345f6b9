// Memory in graph captures: reuse inside the capture, graphs that share a pool, and the rejection of a replay that
// would read overwritten memory.
#include <tessera/tessera.h>

#include <cstdio>

using namespace tessera;

int main() {
  const Device device = Device::get("host");
  const memory::Allocator memory = memory::Allocator::of(device);
  const Stream stream = device.create_stream();
  const memory::Pool pool = memory.create_pool({.name = "steps"});
  constexpr std::size_t kNbytes = 1 << 20;

  memory::Buffer made;
  memory::CapturedGraph produce;
  {
    memory::GraphCapture capture(pool, stream, "produce");
    made = memory.allocate(kNbytes, stream);
    stream.fill(made.data(), 7, 1, kNbytes);
    produce = capture.end();
  }
  memory::Buffer result;
  memory::CapturedGraph consume;
  {
    memory::GraphCapture capture(pool, stream, "consume");
    made.use_on(stream);  // declares an input: the graph reads the output of 'produce'
    result = memory.allocate(kNbytes, stream);
    stream.copy(result.data(), made.data(), kNbytes);
    consume = capture.end();
  }
  made.reset();
  memory::CapturedGraph overwrite;
  {
    memory::GraphCapture capture(pool, stream, "overwrite");
    for (int step = 0; step < 100; ++step) {
      const memory::Buffer scratch = memory.allocate(kNbytes, stream);  // all hundred iterations use one block
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
  } catch (const InvalidArgument& error) {
    std::printf("refused: %s\n", error.message().c_str());
    ++refused;
  }
  stream.synchronize();
  return refused == 1 ? 0 : 1;
}
