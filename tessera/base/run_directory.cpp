#include "tessera/base/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/sync_directory.h"

namespace tessera {
namespace {

constexpr ::mode_t kPrivateDirectory = 0700;
constexpr ::mode_t kGroupDirectory = 0750;

std::string reason(int error) { return std::generic_category().message(error); }

// Returns true if the group, but no other users, may list the directory.
bool is_for_group(::mode_t mode) { return (mode & 0077U) == 0050U; }

std::string identity_of(const struct ::stat& directory) {
  return detail::concat(directory.st_dev, ":", directory.st_ino);
}

// Sets the mode, regardless of the umask, of the directory itself: a link in its place is not followed.
void set_mode(const std::filesystem::path& path, ::mode_t mode) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int error = descriptor < 0 ? errno : 0;
  if (error == 0 && ::fchmod(descriptor, mode) != 0) error = errno;
  if (descriptor >= 0) ::close(descriptor);
  std::error_code none;
  TESSERA_CHECK_AS(
      IoError, error == 0, "run directory '", path.string(), "': cannot set its mode: ",
      std::filesystem::is_symlink(path, none) ? "it is a symbolic link; specify its target" : reason(error));
}

// A link of another user may lead anywhere. A link of this user, or of root, states where runs are kept.
void check_own_link(const std::filesystem::path& path) {
  struct ::stat now = {};
  const bool is_link = ::lstat(path.c_str(), &now) == 0 && S_ISLNK(now.st_mode);
  TESSERA_CHECK_AS(IoError, !is_link || now.st_uid == ::geteuid() || now.st_uid == 0, "run directory '", path.string(),
                   "' is a symbolic link of user ", now.st_uid, ", which a run does not follow; specify its target");
}

// Creates a directory whose name survives a crash. Returns false, with errno, if it exists or cannot be created. If the
// sync fails, the directory is removed, so that the next attempt creates and syncs it again.
bool make_durable(const std::filesystem::path& path, ::mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0) return false;
  const int error = try_sync_directory(path.parent_path().string());
  if (error == 0) return true;
  ::rmdir(path.c_str());
  TESSERA_THROW(IoError, "directory '", path.string(), "': cannot sync its parent directory: ", reason(error));
}

// Creates the missing parents of a directory.
void make_parents(const std::filesystem::path& path) {
  const std::filesystem::path above = path.parent_path();
  std::error_code none;
  if (above.empty() || above == path || std::filesystem::exists(above, none)) return;
  make_parents(above);
  (void)make_durable(above, 0777);
}

}  // namespace

void make_run_directory(const std::filesystem::path& given, RunAccess access) {
  const ::mode_t mode = access == RunAccess::kGroup ? kGroupDirectory : kPrivateDirectory;
  // The kernel follows a link whose name ends in a slash.
  const std::filesystem::path path = given.has_filename() ? given : given.parent_path();
  make_parents(path);
  const bool is_new = make_durable(path, mode);
  const int error = errno;
  if (!is_new) check_own_link(path);
  std::error_code none;
  if (is_new || (access == RunAccess::kGroup && std::filesystem::is_directory(path, none))) return set_mode(path, mode);
  TESSERA_CHECK_AS(IoError, std::filesystem::is_directory(path, none), "run directory '", path.string(),
                   "': cannot create it: ", error == EEXIST ? "it is not a directory" : reason(error));
}

void make_run_subdirectory(const std::filesystem::path& path) {
  struct ::stat parent = {};
  const int found = ::stat(path.has_parent_path() ? path.parent_path().c_str() : ".", &parent);
  int error = errno;
  TESSERA_CHECK_AS(IoError, found == 0, "directory '", path.string(), "': cannot create it: ", reason(error));
  const ::mode_t mode = is_for_group(parent.st_mode) ? kGroupDirectory : kPrivateDirectory;
  if (make_durable(path, mode)) return set_mode(path, mode);
  error = errno;
  struct ::stat now = {};
  const bool is_there = ::lstat(path.c_str(), &now) == 0;
  TESSERA_CHECK_AS(IoError, !is_there || !S_ISLNK(now.st_mode), "directory '", path.string(),
                   "' is a symbolic link, which a run does not follow; remove it");
  TESSERA_CHECK_AS(IoError, is_there && S_ISDIR(now.st_mode), "directory '", path.string(),
                   "': cannot create it: ", error == EEXIST ? "it is not a directory" : reason(error));
}

::mode_t run_file_mode(const std::filesystem::path& directory) {
  struct ::stat now = {};
  const bool is_there = ::stat(directory.empty() ? "." : directory.c_str(), &now) == 0;
  return is_there && is_for_group(now.st_mode) ? 0640 : 0600;
}

int open_run_file(const std::filesystem::path& path) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // a FIFO must not block
  const ::mode_t mode = run_file_mode(path.parent_path());
  int descriptor = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, mode);
  if (descriptor >= 0) {
    ::fchmod(descriptor, mode);  // regardless of the umask
    return descriptor;
  }
  int error = errno;
  if (error == EEXIST) {
    descriptor = ::open(path.c_str(), kFlags);
    error = errno;
  }
  TESSERA_CHECK_AS(IoError, descriptor >= 0, "cannot open '", path.string(), "' for appending: ",
                   error == ELOOP ? "it is a symbolic link, which a run does not follow; remove it" : reason(error));
  struct ::stat now = {};
  if (::fstat(descriptor, &now) == 0 && S_ISREG(now.st_mode)) return descriptor;
  ::close(descriptor);
  TESSERA_THROW(IoError, "'", path.string(), "': must be a regular file, got another kind of file; remove it");
}

bool is_lost_run_directory(const std::filesystem::path& directory) {
  const std::string identity = env::run_dir_lock();
  if (identity.empty() || directory != env::run_dir()) return false;
  struct ::stat now = {};
  return ::stat(directory.c_str(), &now) != 0 || identity_of(now) != identity;
}

RunDirectoryLock::RunDirectoryLock(std::filesystem::path directory, const RunDirectoryLockOptions& options)
    : directory_(std::move(directory)), descriptor_(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  int error = errno;
  TESSERA_CHECK_AS(IoError, descriptor_ >= 0, "run directory '", directory_.string(), "': ", reason(error));
  struct ::stat now = {};
  if (::fstat(descriptor_, &now) == 0) {
    device_ = now.st_dev;
    inode_ = now.st_ino;
  }
  error = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error != 0 && error != EWOULDBLOCK)
    log::warn("run directory '", directory_.string(), "': cannot lock it: ", reason(error),
              "; another run that uses it will not be detected");
  if (error != EWOULDBLOCK || (options.is_rank && env::run_dir_lock() == identity())) return;
  ::close(descriptor_);
  TESSERA_THROW(IoError, "run directory '", directory_.string(),
                "' is in use by an active run; wait until it ends, or specify another with ", options.option);
}

RunDirectoryLock::~RunDirectoryLock() { ::close(descriptor_); }

void RunDirectoryLock::check_in_place() const {
  struct ::stat now = {};
  const bool is_there = ::stat(directory_.c_str(), &now) == 0;
  TESSERA_CHECK_AS(IoError, is_there && now.st_dev == device_ && now.st_ino == inode_, "run directory '",
                   directory_.string(), "' was ", is_there ? "replaced" : "removed or renamed",
                   " during the run; its output would be lost");
}

std::string RunDirectoryLock::identity() const { return detail::concat(device_, ":", inode_); }

}  // namespace tessera
