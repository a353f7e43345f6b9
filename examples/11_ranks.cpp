// Ranks that work together: four ranks as threads of this process add up what they have, cut it among each other and
// put it together again; then one leaves, and the others go on without it. The same body runs on ranks that are
// processes: tessera::init() in place of tessera::simulate(), started by `tessera run -n 4 -- PROGRAM`.
#include <tessera/tessera.h>

#include <chrono>
#include <cstdio>
#include <vector>

namespace {

void body() {
  const tessera::comm::ProcessGroup world = tessera::comm::world();
  const tessera::Stream stream = tessera::Device::get("host").default_stream();

  // Like a launch: it goes to the stream and returns; all ranks ask for the same, in the same order.
  std::vector<float> x(8, static_cast<float>(world.rank() + 1));
  world.all_reduce(x.data(), x.data(), 8, tessera::DType::kF32, {}, stream);

  std::vector<float> mine(2);
  world.reduce_scatter(x.data(), mine.data(), 2, tessera::DType::kF32, {}, stream);
  std::vector<float> whole(8);
  world.all_gather(mine.data(), whole.data(), 2, tessera::DType::kF32, stream).wait();
  if (world.rank() == 0) std::printf("sums of sums: %g ... %g\n", whole.front(), whole.back());

  if (world.rank() == 3) return;  // leaves
  try {
    world.all_reduce(x.data(), x.data(), 8, tessera::DType::kF32, {}, stream).wait();
  } catch (const tessera::Error& error) {
    if (world.rank() == 0) std::printf("%s\n", error.message().c_str());
    stream.reset_error();
  }
  const tessera::comm::ProcessGroup left = world.shrink(std::chrono::seconds(30));
  float one = 1;
  left.all_reduce(&one, &one, 1, tessera::DType::kF32, {}, stream).wait();
  if (left.rank() == 0) std::printf("%g of %d ranks go on\n", one, world.size());
}

}  // namespace

int main() { tessera::simulate(4, body); }
