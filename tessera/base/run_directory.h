// Run directories: who may read them, who may write them, and which process holds them.
//
//   make_run_directory("runs/night", RunAccess::kPrivate);             // 0700
//   const RunDirectoryLock lock("runs/night", {.option = "--run-dir"}); // IoError if an active run holds it
//   write_file("runs/night/launch.json", text, FileKind::kRun);        // atomic_file.h: 0600, replaces a planted link
//
// A file in a run directory is created with run_file_mode() and never through a symbolic link: another user who may
// write the directory, or its parent, must not choose which file a run overwrites.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "tessera/base/export.h"

namespace tessera {

/// Users that may read a run directory.
enum class RunAccess {
  kPrivate,  ///< the owner: directories have mode 0700, files 0600
  kGroup,    ///< the owner and the members of the group: 0750 and 0640
};

/// Makes a run directory, or a directory inside one, and missing parents. A new directory gets exactly the mode of
/// `access`; parents get the default mode (umask). An existing directory keeps its mode, unless `access` is kGroup: it
/// then gets 0750; a symbolic link is rejected. New directories are durable: the directories above them are synced.
/// Throws IoError if the path cannot be a directory, a sync fails or the mode cannot be set.
TESSERA_API void make_run_directory(const std::filesystem::path& path, RunAccess access = RunAccess::kPrivate);

/// Makes a directory inside an existing run directory, with the access that the run directory has, and syncs the run
/// directory. Rejects a symbolic link at `path`, and does not make the run directory. Throws IoError.
TESSERA_API void make_run_subdirectory(const std::filesystem::path& path);

/// Returns the mode of new files in a run directory: 0640 if the group, and nobody else, may read the directory (mode
/// 0750), otherwise 0600.
TESSERA_API ::mode_t run_file_mode(const std::filesystem::path& directory);

/// Opens a file in a run directory to append to it, and creates it if it does not exist. Does not follow a symbolic
/// link at `path`. Returns the descriptor, which the caller closes. Throws IoError.
TESSERA_API int open_run_file(const std::filesystem::path& path);

/// Returns true if the launcher of this rank locked `directory` (TESSERA_RUN_DIR, TESSERA_RUN_DIR_LOCK) and the path no
/// longer names that directory: it was removed, renamed or replaced.
TESSERA_API bool is_lost_run_directory(const std::filesystem::path& directory);

/// Options of RunDirectoryLock.
struct RunDirectoryLockOptions {
  std::string option = "--run-dir";  ///< the option that names another directory, for the error message
  bool is_rank = false;              ///< true: share the lock that the launcher of this rank holds
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
