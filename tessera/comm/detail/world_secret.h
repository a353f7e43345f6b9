// Finds the secret of a store that rank 0 hosts. All ranks of the world search in this order:
//
//   TESSERA_STORE_SECRET               set by the user, or by tessera run for its ranks
//   /dev/shm/tessera-UID/store.secret  if all ranks run on this machine
//   RUN_DIR/store.secret               if TESSERA_RUN_DIR names a directory, which all machines must share
//
// The first rank creates the file with a random secret, readable only by its user. The other ranks read it. The name of
// the job, if the launcher sets one, is mixed in. A world without any of these does not start, unless
// TESSERA_STORE_INSECURE is 1. In that case its store has no secret.
#pragma once

#include <string>

#include "tessera/comm/launch_environment.h"

namespace tessera::comm::detail {

/// Returns the secret of the store that `launched` names; empty for a file store. `user_directory` is the directory for
/// worlds of one machine. Throws InvalidArgument if there is no secret, and IoError if a file cannot be created or
/// other users can read it. If `launched` is insecure, returns an empty secret instead of throwing.
std::string world_secret(const LaunchEnvironment& launched, const std::string& user_directory);
/// Returns /dev/shm/tessera-UID.
std::string user_secret_directory();

/// Returns the secret in DIRECTORY/store.secret, which the first caller creates. Throws IoError unless the file belongs
/// to this user and has mode 0600.
std::string shared_secret(const std::string& directory);

}  // namespace tessera::comm::detail
