// Repeats a collective of MPI on request (peer_loop.h), for comparison in benches:
//
//   mpirun -n 2 comm_mpi_peer FOLDER COLLECTIVE BYTES
//
// BYTES is the size of the larger buffer.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/comm/testing/peer_loop.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER COLLECTIVE BYTES\n", argv[0]);
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int count = static_cast<int>(std::stoll(argv[3]) / 4);
  const int part = count / size;
  std::vector<float> in(static_cast<std::size_t>(count));
  std::vector<float> out(static_cast<std::size_t>(count));
  const std::map<std::string, std::function<void()>> bodies = {
      {"all_reduce", [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }},
      {"all_gather", [&] { MPI_Allgather(in.data(), part, MPI_FLOAT, out.data(), part, MPI_FLOAT, MPI_COMM_WORLD); }},
      {"reduce_scatter",
       [&] { MPI_Reduce_scatter_block(in.data(), out.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }},
      {"all_to_all", [&] { MPI_Alltoall(in.data(), part, MPI_FLOAT, out.data(), part, MPI_FLOAT, MPI_COMM_WORLD); }},
  };
  tessera::comm::obey_orders(
      argv[1], rank, [] { MPI_Barrier(MPI_COMM_WORLD); }, bodies.at(argv[2]));
  MPI_Finalize();
  return 0;
}
