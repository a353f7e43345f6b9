// Symmetric memory: four ranks access each other's buffers. First a halo exchange with puts and signals between
// neighbors; then an all_reduce in which each rank reads the inputs of all ranks between two barriers; then the error
// if a rank allocates a different size.
#include <tessera/tessera.h>

#include <cstdio>
#include <vector>

namespace {

using tessera::comm::SymmetricBuffer;
using tessera::comm::SymmetricPool;

void body() {
  const tessera::comm::ProcessGroup world = tessera::comm::world();
  const tessera::Stream stream = tessera::Device::get("host").create_stream();
  const int rank = world.rank();
  const int next = (rank + 1) % world.size();
  const int previous = (rank + world.size() - 1) % world.size();

  // All ranks create the pool together. Each rank then allocates alone: the offsets agree because all ranks make the
  // same allocations.
  const SymmetricPool pool(world, stream, {.nbytes = 4096});
  const SymmetricBuffer cells = pool.allocate(3 * sizeof(int));
  const SymmetricBuffer sums = pool.allocate(sizeof(float));

  // Left neighbor, own, right neighbor: each rank writes to the buffers of its neighbors and signals them.
  int* const own = reinterpret_cast<int*>(cells.data());
  int* const left = reinterpret_cast<int*>(cells.peer(previous));
  int* const right = reinterpret_cast<int*>(cells.peer(next));
  stream.run([=] {
    own[1] = 10 * rank;
    left[2] = 10 * rank;
    right[0] = 10 * rank;
  });
  pool.put_signal(previous, 0, stream);
  pool.put_signal(next, 1, stream);
  pool.wait_signal(next, 0, stream);
  pool.wait_signal(previous, 1, stream);
  stream.synchronize();
  if (rank == 1) std::printf("rank 1 sees %d %d %d\n", own[0], own[1], own[2]);

  // The first barrier ensures that all ranks have written; the second, that all have read before the next write.
  *reinterpret_cast<float*>(sums.data()) = static_cast<float>(rank + 1);
  std::vector<const float*> all;
  for (int peer = 0; peer < world.size(); ++peer) all.push_back(reinterpret_cast<const float*>(sums.peer(peer)));
  float sum = 0;
  pool.barrier(0, stream);
  stream.run([&] {
    for (const float* value : all) sum += *value;
  });
  pool.barrier(0, stream);
  stream.synchronize();
  if (rank == 0) std::printf("the sum is %g\n", sum);

  // One rank allocates more than the others. The error on each rank names that rank and the difference.
  const SymmetricBuffer other = pool.allocate(rank == 2 ? 2000 : 1000);
  try {
    pool.rendezvous();
  } catch (const tessera::MismatchError& error) {
    if (rank == 0) std::printf("%s\n", error.message().c_str());
  }
}

}  // namespace

int main() { tessera::simulate(4, body); }
