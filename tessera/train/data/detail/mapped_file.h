// A file mapped for reading. If another process truncates it, this process ends with SIGBUS.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Maps a file during its lifetime.
class MappedFile {
 public:
  /// Throws IoError with the file if it is missing, unreadable or not a regular file. Empty files are valid.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  /// Returns its bytes, which start at a page.
  [[nodiscard]] std::string_view bytes() const { return {data_, nbytes_}; }

 private:
  const char* data_ = nullptr;
  std::size_t nbytes_ = 0;
};

}  // namespace tessera::train::detail
