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

/// Writes one file as a whole. Not thread-safe.
class TESSERA_API AtomicFile {
 public:
  /// Opens a file aside; IoError when the directory is missing or cannot be written. A file that stands at `path` gives
  /// the new one its permissions; a symbolic link is followed, so that what it points at is replaced.
  explicit AtomicFile(const std::string& path);
  /// Throws away what was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Where to write. Errors are kept, and thrown by commit().
  [[nodiscard]] std::ostream& stream();
  /// Flushes, syncs and puts the file in its place; IoError when any of that fails, and then nothing has changed.
  /// Once.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Replaces the file at `path` by these bytes, as a whole.
TESSERA_API void write_file(const std::string& path, std::string_view bytes);

}  // namespace tessera
