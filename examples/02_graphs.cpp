// Captures a fork over two streams and a join as a graph, prints it and replays it three times.
#include <tessera/tessera.h>

#include <cstdio>

using namespace tessera;

int main() {
  const Device device = Device::get("host");
  const Stream main_stream = device.create_stream({.name = "main"});
  const Stream side = device.create_stream({.name = "side"});
  const Event forked = device.create_event();
  const Event joined = device.create_event();
  int step = 0;
  int left = 0;
  int right = 0;
  int sum = 0;

  main_stream.begin_capture();
  main_stream.run([&] { ++step; }, {.label = "step"});
  main_stream.record(forked);
  side.wait(forked);  // the side stream joins the capture ...
  side.run([&] { right = step * 10; }, {.label = "right"});
  main_stream.run([&] { left = step; }, {.label = "left"});
  side.record(joined);
  main_stream.wait(joined);  // ... and leaves it again
  main_stream.run([&] { sum += left + right; }, {.label = "sum"});
  const auto graph = main_stream.end_capture();
  std::printf("%s", graph.to_dot().c_str());

  const auto replay = graph.instantiate();
  for (int i = 0; i < 3; ++i) replay.launch(main_stream);
  main_stream.synchronize();
  std::printf("after %d replays the sum is %d\n", step, sum);
  return sum == 66 ? 0 : 1;
}
