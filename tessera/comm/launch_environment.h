// Reads the rank and world of a process from the environment that its launcher sets. A launcher is recognized by its
// variables. The first match in this list is the innermost launcher and wins:
//
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE        tessera run, torchrun, or set by hand
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE  mpirun of Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS   mpiexec of MPICH and Intel
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, ...  srun
//   PMIX_RANK                                              a PMIx launcher: the size must come from WORLD_SIZE
//
// The store is TESSERA_STORE, hosted by another process; otherwise tcp at MASTER_ADDR and MASTER_PORT; otherwise, if
// the job has a number (Open MPI on one machine, Slurm), tcp at a port derived from it. Rank 0 hosts the last two.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/base/rank.h"

namespace tessera::comm {

/// Names and values of environment variables.
using EnvironmentMap = std::map<std::string, std::string>;

/// The settings read from the environment.
struct LaunchEnvironment {
  std::string launcher = {};    ///< name of the launcher, for example "tessera run", "Open MPI" or "Slurm", or empty
  RankPlace place = {};         ///< a world of one rank if there is no launcher
  std::string store = {};       ///< "tcp://127.0.0.1:29500"; empty if the world has one rank and needs no store
  bool hosts_store = false;     ///< true if this rank hosts the store
  bool is_rank_hosted = false;  ///< true on every rank if rank 0 hosts the store
  std::string secret = {};      ///< TESSERA_STORE_SECRET; if empty, comm/detail/world_secret.h finds one
  bool is_insecure = false;     ///< TESSERA_STORE_INSECURE: allows a store without a secret
  std::string job = {};         ///< name of the job, if the launcher sets one: "slurm 123.0", "torchrun ID"
};

/// Parses an environment. Throws InvalidArgument if a variable is missing or not a number, and MismatchError if
/// variables contradict each other. The error suggests a fix.
TESSERA_API LaunchEnvironment read_launch_environment(const EnvironmentMap& environment);
/// Returns the environment of this process, with the checked values of tessera's own variables.
TESSERA_API EnvironmentMap process_environment();
/// Parses the environment of this process.
TESSERA_API LaunchEnvironment read_launch_environment();

}  // namespace tessera::comm
