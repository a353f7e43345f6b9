// The seeded scheduler runs one stream at a time and selects the next stream by a seed. Each seed reproduces one
// interleaving, so that a bug found with a seed can be repeated.
#include <tessera/device/host/host_device.h>
#include <tessera/tessera.h>

#include <cstdio>
#include <set>
#include <string>

using namespace tessera;

namespace {

std::string interleaving(std::uint64_t seed) {
  const Device seeded = device::host::make_host_device({.mode = device::host::Mode::kSeeded, .seed = seed});
  std::string order;
  Stream streams[3];
  for (auto& stream : streams) stream = seeded.create_stream();
  for (char step = '1'; step <= '3'; ++step) {
    for (int i = 0; i < 3; ++i) {
      streams[i].run([&order, i, step] { order += {"abc"[i], step, ' '}; });
    }
  }
  seeded.synchronize();
  return order;
}

}  // namespace

int main() {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::string order = interleaving(seed);
    const bool repeats = order == interleaving(seed);
    std::printf("seed %d: %s%s\n", static_cast<int>(seed), order.c_str(), repeats ? "(twice)" : "(NOT REPEATED)");
    if (!repeats) return 1;
    seen.insert(order);
  }
  return seen.size() > 1 ? 0 : 1;
}
