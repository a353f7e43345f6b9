// Reading of files of unknown type. A reader that opens a FIFO waits for a writer, and a
// reader of a device such as /dev/zero never ends. These functions open without blocking,
// accept only regular files, and limit the bytes they read.
//
//   const std::string text = read_regular_file("run/launch.json", 1 << 20);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera {

/// A regular file open for reading. Reads are positional and thread-safe.
class TESSERA_API RegularFile {
 public:
  /// Opens the file without blocking. Throws IoError if it cannot be opened or is not a regular file.
  explicit RegularFile(const std::string& path);
  /// Closes the file.
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  /// Returns the descriptor, which this object owns.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Returns the size in bytes when the file was opened.
  [[nodiscard]] std::uint64_t nbytes() const { return nbytes_; }
  /// Returns up to `count` bytes from `offset`; fewer at the end of the file. Throws IoError.
  [[nodiscard]] std::string read(std::uint64_t offset, std::uint64_t count) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t nbytes_ = 0;
};

/// Returns all bytes of a regular file. Throws IoError if it holds more than `most` bytes.
TESSERA_API std::string read_regular_file(const std::string& path, std::uint64_t most);

/// A line of a file, for each_line().
struct FileLine {
  std::string_view text;  ///< Without its line end. Empty if the line exceeds the limit.
  bool is_ended = true;   ///< False for text after the last line end.
  bool is_long = false;   ///< True if the line exceeds the limit.
};

/// Calls `take` for each line of a regular file. `longest` limits the bytes of a line and thereby the memory use.
/// Throws IoError.
TESSERA_API void each_line(const RegularFile& file, std::uint64_t longest,
                           const std::function<void(const FileLine&)>& take);

}  // namespace tessera
