// Creation of a world. tessera::init() makes this process one rank of a world that a launcher started (tessera run,
// mpirun, srun or torchrun). tessera::simulate() runs many ranks as threads of this process. Without either, a process
// is a world of one rank.
//
// Ranks meet through a store. tessera run hosts it. Under mpirun and srun, rank 0 hosts it unless TESSERA_STORE names
// one; if that rank ends or dies, operations that need the store (new groups, agree, shrink) fail on all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"

namespace tessera {

namespace comm {
class Store;
}

/// Options of init(). Unset fields are read from the environment (`tessera info --env` lists the variables).
struct InitOptions {
  std::optional<int> rank = {};        ///< world rank of this process
  std::optional<int> world_size = {};  ///< number of ranks in the world
  std::string store = {};              ///< "tcp://host:port" or "file:///dir"; by default MASTER_ADDR and MASTER_PORT
  std::string backend = {};  ///< backend of comm::world(): "shm", "mpi", ...; by default the preferred usable one
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);  ///< limit for finding the other ranks
};

/// Makes this process a rank of a world. A second call with a different rank or world throws.
TESSERA_API void init(const InitOptions& options = {});

/// Returns the world rank of the calling thread, in [0, world_size()).
TESSERA_API int rank();
/// Returns the number of ranks in the world; 1 before init() and outside simulate().
TESSERA_API int world_size();

/// Options of simulate().
struct SimulateOptions {
  /// If set, the ranks and their streams run one at a time, in an order that the seed determines, and a deadlock throws
  /// immediately.
  std::optional<std::uint64_t> seed = {};
  std::string run_dir = {};  ///< run directory of all ranks
};
/// Runs `body` once for each of `ranks` ranks, as threads of this process. Each rank has a host device and an
/// allocator, and shares a store with the others. Waits until all work on the host devices has finished. Records have 1
/// MiB each unless TESSERA_RECORD_BYTES is set. Rethrows the error of the first rank that failed (an Error names its
/// rank), and logs the errors of the ranks that failed later.
TESSERA_API void simulate(int ranks, const std::function<void()>& body, const SimulateOptions& options = {});

namespace comm {
/// Returns the store that the ranks of this world share.
TESSERA_API const std::shared_ptr<Store>& store();
}  // namespace comm

}  // namespace tessera
