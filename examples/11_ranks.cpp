// Ranks that cooperate: four ranks, threads of this process, reduce, scatter and gather their data. Then one rank
// leaves, and the others continue without it. The same body runs on ranks that are processes: replace
// simulate() by init() and start it with `tessera run -n 4 -- PROGRAM`.
#include <tessera/tessera.h>

#include <chrono>
#include <cstdio>

using namespace tessera;

namespace {

void body() {
  const ProcessGroup world = comm::world();

  // A collective is enqueued on the current stream and returns immediately. All ranks enqueue the same collectives in
  // the same order.
  const Tensor x = full({8}, world.rank() + 1);
  world.all_reduce(x);
  const Tensor chunk = empty({2});
  world.reduce_scatter(chunk, x);
  const Tensor sums = empty({8});
  world.all_gather(sums, chunk);
  const double total = sums.sum().item<double>();  // waits for the stream
  if (world.rank() == 0) std::printf("sum of sums of sums: %g\n", total);

  if (world.rank() == 3) return;  // leaves
  try {
    world.all_reduce(x).wait();
  } catch (const Error& error) {
    if (world.rank() == 0) std::printf("%s\n", error.message().c_str());
    tensor::current_stream(x.device()).reset_error();
  }
  const ProcessGroup remaining = world.shrink(std::chrono::seconds(30));
  const Tensor one = ones({});
  remaining.all_reduce(one);
  const double count = one.item<double>();
  if (remaining.rank() == 0) std::printf("%g of %d ranks continue\n", count, world.size());
}

}  // namespace

int main() { simulate(4, body); }
