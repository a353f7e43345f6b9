// Temporary storage for data that is too large for memory: an unnamed file, removed with this object.
#pragma once

#include <cstddef>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Grows at its end, and is read once. Not thread-safe.
class ScratchFile {
 public:
  /// Throws IoError if the directory is missing or not writable.
  explicit ScratchFile(const std::filesystem::path& directory);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  /// Throws IoError if the write fails.
  void append(std::string_view bytes);
  /// Writes all of it to `stream`. Throws IoError if it cannot be read.
  void copy_to(std::ostream& stream) const;

 private:
  std::string directory_;
  int descriptor_ = -1;
};

}  // namespace tessera::train::detail
