// Symmetric memory: four ranks access each other's buffers. First a halo exchange with puts and signals between
// neighbors; then an all_reduce in which each rank reads the inputs of all ranks between two barriers, compared with
// that of the group; then the error if a rank allocates a different size.
#include <tessera/tessera.h>

#include <cstdio>

using namespace tessera;

namespace {

// Returns the values of group rank `peer`.
template <class T>
T* values(const SymmetricBuffer& buffer, int peer) {
  return reinterpret_cast<T*>(buffer.peer(peer));
}

void body() {
  const ProcessGroup world = comm::world();
  const Stream stream = Device::get("host").default_stream();
  const int rank = world.rank();
  const int next = (rank + 1) % world.size();
  const int previous = (rank + world.size() - 1) % world.size();

  // All ranks create the pool together. Each rank then allocates alone: the offsets agree because all ranks make the
  // same allocations.
  const SymmetricPool pool(world, stream, {.nbytes = 4096});
  const SymmetricBuffer cells = pool.allocate(3 * sizeof(int));
  const SymmetricBuffer inputs = pool.allocate(sizeof(float));

  // Left neighbor, own, right neighbor: each rank writes to the buffers of its neighbors and signals them.
  int* const own = values<int>(cells, rank);
  stream.run([=, left = values<int>(cells, previous), right = values<int>(cells, next)] {
    own[1] = left[2] = right[0] = 10 * rank;
  });
  pool.put_signal(previous, 0, stream);
  pool.put_signal(next, 1, stream);
  pool.wait_signal(next, 0, stream);
  pool.wait_signal(previous, 1, stream);
  stream.synchronize();
  if (rank == 1) std::printf("rank 1 sees %d %d %d\n", own[0], own[1], own[2]);

  // The first barrier ensures that all ranks have written; the second, that all have read before the next write.
  *values<float>(inputs, rank) = static_cast<float>(rank + 1);
  float sum = 0;
  pool.barrier(0, stream);
  stream.run([&] {
    for (int peer = 0; peer < world.size(); ++peer) sum += *values<float>(inputs, peer);
  });
  pool.barrier(0, stream);
  const Tensor same = full({}, rank + 1);
  world.all_reduce(same).wait();
  if (rank == 0) std::printf("the sum is %g, and %g by all_reduce\n", sum, *same.data_as<float>());

  // One rank allocates more than the others. The error on each rank names that rank and the difference.
  const SymmetricBuffer other = pool.allocate(rank == 2 ? 2000 : 1000);
  try {
    pool.rendezvous();
  } catch (const MismatchError& error) {
    if (rank == 0) std::printf("%s\n", error.message().c_str());
  }
}

}  // namespace

int main() { simulate(4, body); }
