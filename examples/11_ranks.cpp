// Ranks that cooperate: four ranks, threads of this process, reduce, scatter and gather their data. Then one rank
// leaves, and the others continue without it. The same body runs on ranks that are processes: replace
// tessera::simulate() by tessera::init() and start it with `tessera run -n 4 -- PROGRAM`.
#include <tessera/tessera.h>

#include <chrono>
#include <cstdio>
#include <vector>

namespace {

void body() {
  const tessera::comm::ProcessGroup world = tessera::comm::world();
  const tessera::Stream stream = tessera::Device::get("host").default_stream();

  // A collective is enqueued on the stream and returns immediately. All ranks enqueue the same collectives in the same
  // order.
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
