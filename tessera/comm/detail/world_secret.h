// The secret of a store that rank 0 hosts, as all ranks of the world find it without being told. In this order:
//
//   TESSERA_STORE_SECRET               given by the user; tessera run gives one to its ranks
//   /dev/shm/tessera-UID/store.secret  if all ranks run on this machine
//   RUN_DIR/store.secret               if TESSERA_RUN_DIR names a directory, which all machines must share
//
// The first rank to come makes the file with a random secret, readable by its user only. All others read it. The name
// of the job, if the launcher gives one, is mixed in. A world without any of these does not start, unless
// TESSERA_STORE_INSECURE is 1: then its store has no secret.
#pragma once

#include <string>

#include "tessera/comm/launch_environment.h"

namespace tessera::comm::detail {

/// Returns the secret of the store that `launched` names; empty for a store of files. `user_directory` is the directory
/// for worlds of one machine. Throws InvalidArgument if there is no secret, IoError if a file cannot be made or other
/// users can read it. If `launched` is insecure, returns an empty secret instead of throwing.
std::string world_secret(const LaunchEnvironment& launched, const std::string& user_directory);
/// Returns /dev/shm/tessera-UID.
std::string user_secret_directory();

/// Returns the secret in DIRECTORY/store.secret, which the first caller makes. Throws IoError unless the file belongs
/// to this user and has mode 0600.
std::string shared_secret(const std::string& directory);

}  // namespace tessera::comm::detail
