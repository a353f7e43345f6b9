// Atomic replacement of files. Data goes to a temporary file in the same directory; commit() makes it durable and
// renames it to the path. Readers see the old file or the new one, never an incomplete one, even after a crash. Without
// commit(), or after a failure, the old file is unchanged and the temporary file is removed.
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

/// Kind of a new file.
enum class FileKind {
  kUser,  ///< User path: keeps the permissions of an existing file and follows a symbolic link.
  kRun,   ///< File of a run directory: has mode run_file_mode() (run_directory.h) and replaces a symbolic link.
};

/// Writes one file atomically. Not thread-safe.
class TESSERA_API AtomicFile {
 public:
  /// Opens a temporary file next to `path`. Throws IoError if the directory is missing or cannot be written.
  explicit AtomicFile(const std::string& path, FileKind kind = FileKind::kUser);
  /// Discards data that was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Returns the stream to write to. commit() throws its errors.
  [[nodiscard]] std::ostream& stream();
  /// Flushes, syncs and renames the file. Call it once. Throws IoError on failure, and then nothing has changed, with
  /// one exception: if the sync of the directory fails, the new file is in place, but may not survive a crash.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Replaces the file at `path` atomically with these bytes.
TESSERA_API void write_file(const std::string& path, std::string_view bytes, FileKind kind = FileKind::kUser);

}  // namespace tessera
