#include "tessera/comm/detail/world_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/run_directory.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/detail/proof.h"
#include "tessera/comm/store/open_store.h"

namespace tessera::comm::detail {
namespace {

constexpr std::size_t kSecretChars = 64;
constexpr const char* kWayOut = "; or set the same TESSERA_STORE_SECRET on all ranks";

// "0644"
std::string mode_text(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777U));
  return text;
}

// Returns the secret in a file, which is complete from the moment it has its name; empty if the file does not exist.
std::string read_secret(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return {};
  TESSERA_CHECK_AS(IoError, file, "init: cannot read ", path, ": ", std::strerror(errno), kWayOut);
  struct stat info = {};
  const bool is_private = ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
                          (info.st_mode & 077U) == 0;
  TESSERA_CHECK_AS(IoError, is_private, "init: ", path, " must be a file of user ", ::geteuid(),
                   " that only this user can read (mode 0600), got a file of user ", info.st_uid, " with mode ",
                   mode_text(info.st_mode), "; remove it", kWayOut);
  std::array<char, kSecretChars + 1> bytes = {};
  const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
  TESSERA_CHECK_AS(IoError, got == static_cast<ssize_t>(kSecretChars), "init: ", path, " must hold ", kSecretChars,
                   " bytes, got ", got, "; remove it", kWayOut);
  return {bytes.data(), kSecretChars};
}

// Creates `path` with a new secret, unless another rank was faster.
void make_secret(const std::string& path) {
  const std::string secret = random_secret();
  const std::string temporary = path + "." + random_secret().substr(0, 16);
  const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  bool is_made = file && ::write(file.get(), secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (is_made) is_made = ::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const int error = errno;
  if (file) ::unlink(temporary.c_str());
  TESSERA_CHECK_AS(IoError, is_made, "init: cannot create ", path, ": ", std::strerror(error), kWayOut);
}

// Creates a directory that no other user can enter or populate.
void make_private_directory(const std::string& path) {
  const bool is_made = ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
  TESSERA_CHECK_AS(IoError, is_made, "init: cannot create ", path, ": ", std::strerror(errno), kWayOut);
  struct stat info = {};
  const bool is_private = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                          (info.st_mode & 077U) == 0;
  TESSERA_CHECK_AS(IoError, is_private, "init: ", path, " must be a directory of user ", ::geteuid(),
                   " with mode 0700, got one of user ", info.st_uid, "; remove it", kWayOut);
}

// Returns the secret of the store that rank 0 hosts, from a file that all ranks of the world see.
std::string found_secret(const LaunchEnvironment& launched, const std::string& user_directory) {
  const RankPlace& place = launched.place;
  if (!launched.is_rank_hosted) check_secret("init: the store at " + launched.store, "", /*may_be_empty=*/false);
  if (place.local_world_size == place.world_size) {
    make_private_directory(user_directory);
    return shared_secret(user_directory);
  }
  TESSERA_CHECK(!place.run_dir.empty(), "init: the store at ", launched.store,
                " needs a secret, got none; set the same one ",
                "on all ranks (export TESSERA_STORE_SECRET=$(openssl rand -hex 32), and -x TESSERA_STORE_SECRET for "
                "mpirun), set TESSERA_RUN_DIR to a directory that all machines share, or set "
                "TESSERA_STORE_INSECURE=1 to let in every process that reaches the port");
  try {
    make_run_directory(place.run_dir);
  } catch (const IoError& error) {
    TESSERA_THROW(IoError, "init: ", error.message(), kWayOut);
  }
  return shared_secret(place.run_dir);
}

}  // namespace

std::string shared_secret(const std::string& directory) {
  const std::string path = directory + "/store.secret";
  std::string secret = read_secret(path);
  // A network file system may show a new name late.
  for (int round = 0; secret.empty() && round < 5; ++round) {
    make_secret(path);
    secret = read_secret(path);
  }
  TESSERA_CHECK_AS(IoError, !secret.empty(), "init: ", path, " was removed during its creation", kWayOut);
  return secret;
}

std::string user_secret_directory() { return "/dev/shm/tessera-" + std::to_string(::geteuid()); }

std::string world_secret(const LaunchEnvironment& launched, const std::string& user_directory) {
  if (!launched.secret.empty()) return launched.secret;
  if (parse_store_address(launched.store).kind == StoreAddress::Kind::kFile) return {};
  try {
    const std::string secret = found_secret(launched, user_directory);
    // Two jobs of one user that use the same port must not join each other.
    return launched.job.empty() ? secret : prove(secret, "tessera job", {launched.job});
  } catch (const Error& error) {
    if (!launched.is_insecure) throw;
    log::warn("TESSERA_STORE_INSECURE=1: the store at ", launched.store,
              " has no secret; every process that reaches its port can connect: ", error.message());
    return {};
  }
}

}  // namespace tessera::comm::detail
