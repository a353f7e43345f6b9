// The caching allocator: memory for streams, reused only if stream order proves it safe, with an owner for every byte.
#include <tessera/tessera.h>

#include <cstdio>

using namespace tessera;

int main() {
  const Device device = Device::get("host");
  const memory::Allocator memory = memory::Allocator::of(device);
  const Stream compute = device.create_stream({.name = "compute"});
  const Stream transfer = device.create_stream({.name = "transfer"});

  const memory::Label label("activations");
  memory::Buffer x = memory.allocate(4 << 20, compute);
  compute.fill(x.data(), 1, 1, x.nbytes());

  // Declares that another stream uses the buffer. The block is reused only after the work that stream has launched so
  // far.
  const Event ready = device.create_event();
  compute.record(ready);
  transfer.wait(ready);
  x.use_on(transfer);
  transfer.fill(x.data(), 2, 1, x.nbytes());
  const std::byte* first = x.data();
  x.reset();

  // An event orders this allocation after that work, so that it gets the same memory without a driver call.
  const Event done = device.create_event();
  transfer.record(done);
  compute.wait(done);
  const memory::Buffer y = memory.allocate(4 << 20, compute);
  std::printf("the same memory again: %s\n", y.data() == first ? "yes" : "no");

  const memory::Statistics seen = memory.statistics();
  std::printf("reserved %llu = live %llu + rounding %llu + pending %llu + cached %llu\n",
              static_cast<unsigned long long>(seen.now.reserved_nbytes),
              static_cast<unsigned long long>(seen.now.live_nbytes),
              static_cast<unsigned long long>(seen.now.rounding_nbytes),
              static_cast<unsigned long long>(seen.now.pending_nbytes),
              static_cast<unsigned long long>(seen.now.cached_nbytes));
  device.synchronize();
  return y.data() == first && seen.now.closes() ? 0 : 1;
}
