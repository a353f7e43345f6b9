// Measures the cost of clocks: Stream::record and Stream::wait through the common layer, on the example device, whose
// driver calls cost almost nothing, with all entries of the clocks in use.
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/device/example/example_device.h"

namespace tessera::device {
namespace {

void measure(bench::Context& context, const std::string& name, int streams, double must) {
  if (!context.wants(name)) return;
  const Device device = example::make_example_device();
  const Event event = device.create_event();
  std::vector<Stream> all;
  for (int i = 0; i < streams; ++i) all.push_back(device.create_stream());
  for (const Stream& stream : all) {  // after this every stream knows every other
    stream.record(event);
    for (const Stream& other : all) other.wait(event);
  }
  const Stream& from = all.front();
  const Stream& to = all.back();
  context.measure({.name = name,
                   .ours =
                       [&] {
                         from.record(event);
                         to.wait(event);
                       },
                   .must = must});
}

TESSERA_BENCH(clock) {
  measure(context, "clock_record_wait_16", 16, 150);
  measure(context, "clock_record_wait_1024", 1024, 2000);
}

}  // namespace
}  // namespace tessera::device
