// How a rank comes to be. tessera::init() makes this process one rank of a world that a launcher started (tessera run,
// mpirun, srun; torchrun's names are read too); tessera::simulate() runs many ranks as threads of this process. Without
// either a process is a world of one.
//
// Ranks meet in a store. tessera run hosts it; under mpirun and srun rank 0 does, unless TESSERA_STORE names one: when
// rank 0 ends or dies there, what needs the store (new groups, agree, shrink) fails on all ranks.
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

/// What init() may be told; what is not given is read from the environment (`tessera info --env` lists the names).
struct InitOptions {
  std::optional<int> rank = {};        ///< of this process
  std::optional<int> world_size = {};  ///< ranks in all
  std::string store = {};              ///< "tcp://host:port", "file:///dir"; not given: MASTER_ADDR, MASTER_PORT
  std::string backend = {};            ///< that comm::world() runs on: "shm", "mpi", ...; not given: the best one
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);  ///< to find the other ranks
};

/// Makes this process a rank. Once a process; a second call with another place is an error.
TESSERA_API void init(const InitOptions& options = {});

/// How ranks are simulated.
struct SimulateOptions {
  /// Given: the ranks and their streams run one at a time, in the order of this seed; a deadlock is an error at once.
  std::optional<std::uint64_t> seed = {};
  std::string run_dir = {};  ///< of all ranks
};
/// Runs `body` once for each of `ranks` ranks, as threads of this process, each with a host device, an allocator and a
/// store shared with the others. What it enqueued on its host device runs to its end. Records have 1 MiB each, unless
/// TESSERA_RECORD_BYTES is set. Throws what the first rank that failed threw (an Error names its rank), and logs how
/// those ended that failed after it.
TESSERA_API void simulate(int ranks, const std::function<void()>& body, const SimulateOptions& options = {});

namespace comm {
/// The store that the ranks of this world share.
TESSERA_API const std::shared_ptr<Store>& store();
}  // namespace comm

}  // namespace tessera
