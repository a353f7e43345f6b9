// Two streams and an event: one stream computes, the other copies the result after the event.
#include <tessera/tessera.h>

#include <cstdio>
#include <vector>

using namespace tessera;

int main() {
  const Device device = Device::get("host");
  const Stream compute = device.create_stream({.name = "compute"});
  const Stream transfer = device.create_stream({.name = "transfer"});
  const Event ready = device.create_event();

  auto range = device.reserve(1 << 20);         // reserves addresses ...
  range.map(0, device.create_memory(1 << 20));  // ... and maps memory to them
  auto* squares = reinterpret_cast<int*>(range.data());
  std::vector<int> result(1000);

  compute.run(
      [squares] {
        for (int i = 0; i < 1000; ++i) squares[i] = i * i;
      },
      {.label = "squares"});
  compute.record(ready);  // a point in the compute stream ...
  transfer.wait(ready);   // ... that the transfer stream waits for, without blocking this thread
  transfer.copy(result.data(), squares, result.size() * sizeof(int));
  transfer.synchronize();  // throws the errors of the stream
  std::printf("30 squared is %d\n", result[30]);
  return result[30] == 900 ? 0 : 1;
}
