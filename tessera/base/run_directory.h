// Run directories: access modes, safe file creation and locks.
//
//   make_run_directory("runs/night", RunAccess::kPrivate);             // 0700
//   const RunDirectoryLock lock("runs/night", {.option = "--run-dir"}); // IoError if an active run holds it
//   write_file("runs/night/launch.json", text, FileKind::kRun);        // atomic_file.h: 0600, replaces a planted link
//
// Files in a run directory are created with run_file_mode() and never through a symbolic link: another user with write
// access to the directory, or to its parent, must not choose which file a run overwrites.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "tessera/base/export.h"

namespace tessera {

/// Users that may read a run directory.
enum class RunAccess {
  kPrivate,  ///< The owner: directories have mode 0700, files 0600.
  kGroup,    ///< The owner and the members of the group: 0750 and 0640.
};

/// Creates a run directory, or a directory inside one, and missing parents. A new directory gets exactly the mode of
/// `access`; parents get the default mode (umask). An existing directory keeps its mode, unless `access` is kGroup: it
/// then gets 0750, and a symbolic link is rejected. Otherwise a symbolic link is followed only if this user or root
/// owns it. New directories are durable: the directories above them are synced. Throws IoError if the path cannot be a
/// directory, a sync fails or the mode cannot be set.
TESSERA_API void make_run_directory(const std::filesystem::path& path, RunAccess access = RunAccess::kPrivate);

/// Creates a directory inside an existing run directory, with the access of the run directory, and syncs the run
/// directory. Throws IoError on failure, also if `path` is a symbolic link or the run directory does not exist.
TESSERA_API void make_run_subdirectory(const std::filesystem::path& path);

/// Returns the mode of new files in a run directory: 0640 if only the owner and the group may read the directory (mode
/// 0750), otherwise 0600.
TESSERA_API ::mode_t run_file_mode(const std::filesystem::path& directory);

/// Opens a file in a run directory to append to it, and creates it if it does not exist. Does not follow a symbolic
/// link at `path`. Returns the descriptor, which the caller closes. Throws IoError.
TESSERA_API int open_run_file(const std::filesystem::path& path);

/// Returns true if the launcher of this rank locked `directory` (TESSERA_RUN_DIR, TESSERA_RUN_DIR_LOCK) and the path no
/// longer names that directory: it was removed, renamed or replaced.
TESSERA_API bool is_lost_run_directory(const std::filesystem::path& directory);

/// Removes a run directory that a start created if the start is rejected, and the directory above it if the start
/// created that too. A directory with a file in it stays.
class NewRunDirectory {
 public:
  /// Notes what exists. An empty path is named later by made(); until then, the directory above it is runs/.
  explicit NewRunDirectory(std::filesystem::path path)
      : path_(std::move(path)),
        above_(path_.empty() ? "runs" : path_.parent_path()),
        was_there_(!path_.empty() && std::filesystem::exists(path_)),
        had_above_(above_.empty() || std::filesystem::exists(above_)) {}
  ~NewRunDirectory() {
    std::error_code ignored;
    if (path_.empty() || was_there_ || !std::filesystem::remove(path_, ignored)) return;
    if (!had_above_) std::filesystem::remove(above_, ignored);
  }
  NewRunDirectory(const NewRunDirectory&) = delete;
  NewRunDirectory& operator=(const NewRunDirectory&) = delete;

  /// Names the directory that the start uses.
  void made(const std::filesystem::path& path) { path_ = path; }
  /// Keeps the directory.
  void keep() { path_.clear(); }

 private:
  std::filesystem::path path_;  // empty: not known yet, or kept
  std::filesystem::path above_;
  bool was_there_;
  bool had_above_;
};

/// Options of RunDirectoryLock.
struct RunDirectoryLockOptions {
  std::string option = "--run-dir";  ///< Option that selects another directory, for the error message.
  bool is_rank = false;              ///< True: share the lock that the launcher of this rank holds.
};

/// An exclusive lock on a run directory (flock). It lasts until the object is destroyed or the process ends. File
/// systems without flock provide no exclusion; the constructor then logs a warning.
class TESSERA_API RunDirectoryLock {
 public:
  /// Locks the directory. Throws IoError if it does not exist or an active run holds it.
  RunDirectoryLock(std::filesystem::path directory, const RunDirectoryLockOptions& options);
  ~RunDirectoryLock();
  RunDirectoryLock(const RunDirectoryLock&) = delete;
  RunDirectoryLock& operator=(const RunDirectoryLock&) = delete;

  /// Throws IoError if the path no longer names the locked directory: it was removed, renamed or replaced.
  void check_in_place() const;
  /// Returns the value of TESSERA_RUN_DIR_LOCK that lets the ranks of this process share the lock.
  [[nodiscard]] std::string identity() const;

 private:
  std::filesystem::path directory_;
  int descriptor_ = -1;
  ::dev_t device_ = 0;
  ::ino_t inode_ = 0;
};

}  // namespace tessera
