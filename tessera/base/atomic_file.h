// A file that is whole or not there. What is written goes to a file aside, in the same directory; commit() makes it
// durable and renames it over the path. Whoever reads the path sees the old file or the new one, never a piece, even
// across a crash. Without commit(), or when anything fails, the old file stays as it was and the one aside is removed.
//
//   AtomicFile file("run/snapshot.pickle");
//   file.stream() << ...;
//   file.commit();
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// How a file is created.
enum class FileKind {
  kUser,  ///< where the user asked for it: an existing file gives its permissions, a symbolic link is followed
  kRun,   ///< in a run directory: the mode is run_file_mode() (run_directory.h), a symbolic link is replaced
};

/// Writes one file as a whole. Not thread-safe.
class TESSERA_API AtomicFile {
 public:
  /// Opens a temporary file next to `path`. Throws IoError if the directory is missing or cannot be written.
  explicit AtomicFile(const std::string& path, FileKind kind = FileKind::kUser);
  /// Throws away what was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Where to write. Errors are kept, and thrown by commit().
  [[nodiscard]] std::ostream& stream();
  /// Flushes, syncs and puts the file in its place; IoError when any of that fails, and then nothing has changed. One
  /// exception: if the sync of the directory fails, the new file is in its place, but may not survive a crash. Once.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Replaces the file at `path` by these bytes, as a whole.
TESSERA_API void write_file(const std::string& path, std::string_view bytes, FileKind kind = FileKind::kUser);

}  // namespace tessera
