// Two streams and an event: one computes, the other copies the result out once it is there.
#include <tessera/tessera.h>

#include <cstdio>
#include <vector>

int main() {
  const tessera::Device device = tessera::Device::get("host");
  const tessera::Stream compute = device.create_stream({.name = "compute"});
  const tessera::Stream transfer = device.create_stream({.name = "transfer"});
  const tessera::Event ready = device.create_event();

  auto range = device.reserve(1 << 20);         // addresses ...
  range.map(0, device.create_memory(1 << 20));  // ... with memory behind them
  auto* squares = reinterpret_cast<int*>(range.data());
  std::vector<int> result(1000);

  compute.run(
      [squares] {
        for (int i = 0; i < 1000; ++i) squares[i] = i * i;
      },
      {.label = "squares"});
  compute.record(ready);  // a point in the compute stream ...
  transfer.wait(ready);   // ... that the transfer stream waits for, without stopping this thread
  transfer.copy(result.data(), squares, result.size() * sizeof(int));
  transfer.synchronize();  // throws here what went wrong on the stream
  std::printf("30 squared is %d\n", result[30]);
  return result[30] == 900 ? 0 : 1;
}
