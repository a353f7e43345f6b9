// A checked device rejects a race before the work runs, even if the race would not have occurred this time.
#include <tessera/device/host/host_device.h>
#include <tessera/tessera.h>

#include <array>
#include <cstdio>

using namespace tessera;

int main() {
  const Device checked = device::host::make_host_device({.checked = true});
  const Stream producer = checked.create_stream({.name = "producer"});
  const Stream consumer = checked.create_stream({.name = "consumer"});
  auto range = checked.reserve(1 << 20);
  range.map(0, checked.create_memory(1 << 20));
  auto* value = reinterpret_cast<int*>(range.data());
  int seen = 0;

  const std::array written{device::writes(value, sizeof(int))};
  const std::array read{device::reads(value, sizeof(int))};
  producer.run([value] { *value = 42; }, {.label = "produce", .accesses = written});
  try {
    consumer.run([&seen, value] { seen = *value; }, {.label = "consume", .accesses = read});
    std::puts("the race went unseen");
    return 1;
  } catch (const Error& error) {
    std::printf("refused: %s\n", error.message().c_str());
  }

  const Event produced = checked.create_event();
  producer.record(produced);
  consumer.wait(produced);  // the missing order
  consumer.run([&seen, value] { seen = *value; }, {.label = "consume", .accesses = read});
  consumer.synchronize();
  std::printf("with the edge: %d\n", seen);
  return seen == 42 ? 0 : 1;
}
