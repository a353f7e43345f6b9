// Bytes that are too many for memory and have no place yet: a file without a name, gone when this is.
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
  /// IoError: the directory is missing or cannot be written.
  explicit ScratchFile(const std::filesystem::path& directory);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  /// IoError: it could not be written.
  void append(std::string_view bytes);
  /// Writes all of it; IoError: it could not be read.
  void copy_to(std::ostream& stream) const;

 private:
  std::string directory_;
  int descriptor_ = -1;
};

}  // namespace tessera::train::detail
