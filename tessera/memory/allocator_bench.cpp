// The memory suite on the host device.
#include "tessera/device/host/host_device.h"
#include "tessera/memory/testing/workloads.h"

namespace tessera::memory::workloads {
namespace {

TESSERA_BENCH(host) {
  Setup setup;
  setup.device = device::host::make_host_device({.capacity_nbytes = std::size_t{12} << 30});
  setup.kernel = setup.device.host_kernel("nothing", [](const device::LaunchConfig&, void* const*) {});
  setup.pair_must = 80;
  setup.capture_must = 1.5;
  measure_all(context, setup);
}

}  // namespace
}  // namespace tessera::memory::workloads
