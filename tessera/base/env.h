// Every environment variable that Tessera reads, in one table with its type, default and meaning (rows in env.cpp;
// `tessera info --env` prints it). A variable is read when its getter is called; who needs it to stay the same keeps
// it. A value that is not of its type is an InvalidArgument that names the variable, the value and what is allowed. The
// first use of any getter warns about names in the environment that start with TESSERA_ and are not in the table.
//
// A new variable is one row in env.cpp and one getter here. Only what has a reader has a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::env {

/// TESSERA_RUN_DIR: where a run keeps its records; empty: nowhere, they go away with the process.
TESSERA_API std::string run_dir();
/// TESSERA_RUN_DIR_LOCK: device:inode of the run directory that the launcher of this rank has locked
/// (base/run_directory.h); empty if no launcher did.
TESSERA_API std::string run_dir_lock();
/// TESSERA_LOG: the least level that is logged: debug, info, warn, error or off.
TESSERA_API std::string_view log_level();
/// TESSERA_LOG_COLOR: auto (on a terminal), always or never.
TESSERA_API std::string_view log_color();
/// TESSERA_RECORD: on or off.
TESSERA_API std::string_view record_mode();
/// TESSERA_RECORD_BYTES: size of one rank's record file.
TESSERA_API std::uint64_t record_bytes();
/// TESSERA_RECORD_NO_SPACE: what to do when the record file does not fit: smaller, off or fail.
TESSERA_API std::string_view record_no_space();
/// TESSERA_RECORD_DIR: where record files are made; empty: /dev/shm.
TESSERA_API std::string record_dir();
/// TESSERA_HOST_MODE: how host streams run: inline, threaded or seeded.
TESSERA_API std::string_view host_mode();
/// TESSERA_HOST_SEED: the order of a seeded host.
TESSERA_API std::uint64_t host_seed();
/// TESSERA_HOST_CAPACITY: bytes of a host device; 0: what the machine has.
TESSERA_API std::uint64_t host_capacity();
/// TESSERA_HOST_CHECKED: whether host launches are checked for missing order.
TESSERA_API bool host_checked();
/// TESSERA_CUDA_CONNECTIONS: hardware queues asked of the CUDA driver, 1 to 32.
TESSERA_API int cuda_connections();
/// TESSERA_MEMORY_POLICY: changes to the allocator's policy, as "granule_nbytes=4MiB,cross_stream=grow"; empty: none.
/// Names and values are checked by who reads it (memory::Policy::parse).
TESSERA_API std::string memory_policy();

/// TESSERA_THREADS: threads that host kernels of one rank may use; 0: the cores, shared among the ranks of the machine.
TESSERA_API int threads();

/// TESSERA_STORE: where ranks meet, "tcp://host:port" or "file:///directory"; empty: as the launcher's other variables
/// say (comm/launch_environment.h).
TESSERA_API std::string store();
/// TESSERA_STORE_SECRET: the secret that ranks and a store behind a socket prove to each other.
TESSERA_API std::string store_secret();
/// TESSERA_STORE_INSECURE: true if a store behind a socket may run without a secret.
TESSERA_API bool store_insecure();
/// TESSERA_STORE_BIND: the address that a rank which hosts the store listens on; empty: the host of the store's
/// address.
TESSERA_API std::string store_bind();
/// TESSERA_STORE_BYTES: bytes that a store behind a socket holds for all its clients.
TESSERA_API std::uint64_t store_bytes();
/// TESSERA_STORE_CLIENT_BYTES: bytes that a store behind a socket holds for one client.
TESSERA_API std::uint64_t store_client_bytes();
/// TESSERA_DEADLINE: seconds that an operation of a group may take, unless the group sets another deadline.
TESSERA_API std::uint64_t deadline_seconds();
/// TESSERA_COMM_CHECK: whether ranks compare all that a launch does before any of it is done.
TESSERA_API bool comm_check();

/// One variable as it stands now.
struct Entry {
  std::string name;           ///< TESSERA_...
  std::string type;           ///< "size", "integer 1 to 32", "on|off", ...
  std::string value;          ///< what is in force, as text: what was set, else the default; a secret: "(hidden)"
  std::string default_value;  ///< what it is when not set
  std::string meaning;        ///< one line
  bool is_set = false;        ///< whether the environment sets it
  std::string error;          ///< why the value is refused; empty when it is good
};

/// All variables, in a fixed order. Never throws for a bad value: the entry says what is wrong with it.
TESSERA_API std::vector<Entry> table();

/// Names in the environment that start with TESSERA_ and that nothing reads, with the nearest name of the table after
/// each ("" when none is near).
TESSERA_API std::vector<std::pair<std::string, std::string>> unknown_names();

}  // namespace tessera::env
