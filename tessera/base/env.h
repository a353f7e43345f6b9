// Every environment variable that Tessera reads, in one table with type, default and meaning (rows in env.cpp; `tessera
// info --env` prints it). Each call of a getter reads the variable again; callers that need a stable value keep it. A
// malformed value throws InvalidArgument with the variable, the value and the allowed values. The first call of any
// getter warns about variables that start with TESSERA_ and are not in the table.
//
// A new variable needs a row in env.cpp and a getter here. Only variables that are read have a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::env {

/// Returns TESSERA_RUN_DIR: the directory for the records of a run. If empty, records are lost with the process.
TESSERA_API std::string run_dir();
/// Returns TESSERA_RUN_DIR_LOCK: device:inode of the run directory that the launcher of this rank has locked
/// (base/run_directory.h). Empty if no launcher did.
TESSERA_API std::string run_dir_lock();
/// Returns TESSERA_LOG: the lowest level to log: debug, info, warn, error or off.
TESSERA_API std::string_view log_level();
/// Returns TESSERA_LOG_COLOR: auto (on a terminal), always or never.
TESSERA_API std::string_view log_color();
/// Returns TESSERA_RECORD: on or off.
TESSERA_API std::string_view record_mode();
/// Returns TESSERA_RECORD_BYTES: size of the record file of one rank.
TESSERA_API std::uint64_t record_bytes();
/// Returns TESSERA_RECORD_NO_SPACE: action if the record file does not fit: smaller, off or fail.
TESSERA_API std::string_view record_no_space();
/// Returns TESSERA_RECORD_DIR: the directory for record files. Empty: /dev/shm.
TESSERA_API std::string record_dir();
/// Returns TESSERA_HOST_MODE: execution of host streams: inline, threaded or seeded.
TESSERA_API std::string_view host_mode();
/// Returns TESSERA_HOST_SEED: seed of the execution order in seeded mode.
TESSERA_API std::uint64_t host_seed();
/// Returns TESSERA_HOST_CAPACITY: bytes of a host device. 0: the memory of the machine.
TESSERA_API std::uint64_t host_capacity();
/// Returns TESSERA_HOST_CHECKED: true if host launches are checked for races.
TESSERA_API bool host_checked();
/// Returns TESSERA_CUDA_CONNECTIONS: number of hardware queues requested from the CUDA driver, 1 to 32.
TESSERA_API int cuda_connections();
/// Returns TESSERA_CUDA_ATTENTION: kernels of attention on CUDA: auto, cudnn or tiled.
TESSERA_API std::string_view cuda_attention();
/// Returns TESSERA_MEMORY_POLICY: changes to the policy of the allocator, such as
/// "granule_nbytes=4MiB,cross_stream=grow". Empty: no changes. memory::Policy::parse() checks names and values.
TESSERA_API std::string memory_policy();

/// Returns TESSERA_THREADS: maximum threads for host kernels of one rank. 0:
/// the cores, shared among the ranks of the machine.
TESSERA_API int threads();

/// Returns TESSERA_STORE: address of the store, "tcp://host:port" or "file:///directory". Empty: derived from the other
/// variables of the launcher (comm/launch_environment.h).
TESSERA_API std::string store();
/// Returns TESSERA_STORE_SECRET: the secret with which ranks and a socket store authenticate each other.
TESSERA_API std::string store_secret();
/// Returns TESSERA_STORE_INSECURE: true if a socket store may run without a secret.
TESSERA_API bool store_insecure();
/// Returns TESSERA_STORE_BIND: the address on which the rank that hosts the store listens. Empty: the host of the store
/// address.
TESSERA_API std::string store_bind();
/// Returns TESSERA_STORE_BYTES: bytes that a socket store holds for all its clients.
TESSERA_API std::uint64_t store_bytes();
/// Returns TESSERA_STORE_CLIENT_BYTES: bytes that a socket store holds for one client.
TESSERA_API std::uint64_t store_client_bytes();
/// Returns TESSERA_DEADLINE: default deadline of group operations in seconds.
TESSERA_API std::uint64_t deadline_seconds();
/// Returns TESSERA_COMM_CHECK: true if ranks compare all operations of a launch before they start any.
TESSERA_API bool comm_check();

/// Current state of one variable.
struct VariableState {
  std::string name;  ///< TESSERA_...
  std::string type;  ///< "size", "integer 1 to 32", "on|off", ...
  /// Active value as text: the value that was set, or the default. A secret is "(hidden)".
  std::string value;
  std::string default_value;  ///< Value if the variable is not set.
  std::string meaning;        ///< One line.
  bool is_set = false;        ///< True if the environment sets the variable.
  std::string error;          ///< Error of a malformed value; empty if it is valid.
};

/// Returns all variables in a fixed order. Does not throw for a malformed value: the entry holds the error.
TESSERA_API std::vector<VariableState> table();

/// Returns the names in the environment that start with TESSERA_ and are unknown,
/// each with the nearest known name ("" if none is near).
TESSERA_API std::vector<std::pair<std::string, std::string>> unknown_names();

}  // namespace tessera::env
