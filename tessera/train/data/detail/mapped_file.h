// A whole file in memory, to read. Whoever cuts the file short meanwhile ends the process with SIGBUS.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Maps a file while it lives.
class MappedFile {
 public:
  /// IoError, which names the file: missing, unreadable, not a regular file. An empty one is as good as any.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  /// Its bytes, at the start of a page.
  [[nodiscard]] std::string_view bytes() const { return {data_, nbytes_}; }

 private:
  const char* data_ = nullptr;
  std::size_t nbytes_ = 0;
};

}  // namespace tessera::train::detail
