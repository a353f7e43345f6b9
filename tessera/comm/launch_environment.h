// Where a process stands in its world, from what its launcher put into the environment. A launcher is known by the
// names it sets; the first of these that is there counts, since it is the innermost:
//
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE        tessera run, torchrun, or set by hand
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE  mpirun of Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS   mpiexec of MPICH and Intel
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, ...  srun
//   PMIX_RANK                                              a PMIx launcher: the size must come from WORLD_SIZE
//
// The store is TESSERA_STORE, which someone else hosts; else tcp at MASTER_ADDR and MASTER_PORT; else, where the job
// has a number (Open MPI on one machine, Slurm), at a port made from it. The last two are hosted by rank 0.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/base/rank.h"

namespace tessera::comm {

/// Names and values.
using EnvironmentMap = std::map<std::string, std::string>;

/// What the environment says.
struct LaunchEnvironment {
  std::string launcher =
      {};  ///< "tessera run", "torchrun", "Open MPI", "PMI", "PMIx", "Slurm", "the environment"; empty: none
  RankPlace place = {};         ///< a world of one where there is no launcher
  std::string store = {};       ///< "tcp://127.0.0.1:29500"; empty: none is needed, the world is one rank
  bool hosts_store = false;     ///< whether this rank is to host it
  bool is_rank_hosted = false;  ///< rank 0 hosts it, whichever rank this is
  std::string secret = {};      ///< TESSERA_STORE_SECRET; empty: comm/detail/world_secret.h finds one
  bool is_insecure = false;     ///< TESSERA_STORE_INSECURE: a store without a secret is allowed
  std::string job = {};         ///< name of the job, if the launcher gives one: "slurm 123.0", "torchrun ID"
};

/// Reads it. InvalidArgument names what is missing or no number, MismatchError the names that contradict each other;
/// both name the way out.
TESSERA_API LaunchEnvironment read_launch_environment(const EnvironmentMap& environment);
/// The environment of this process, what tessera's own variables are after checks among it.
TESSERA_API EnvironmentMap process_environment();
/// Reads that of this process.
TESSERA_API LaunchEnvironment read_launch_environment();

}  // namespace tessera::comm
