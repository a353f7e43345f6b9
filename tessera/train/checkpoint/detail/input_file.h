// A file of a checkpoint that is read: opened, and its size held against the index before anything else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tessera/train/checkpoint/detail/index.h"

namespace tessera::train::detail {

/// The file of a rank. Move-only.
class InputFile {
 public:
  /// IoError when it is missing or has another size than the index says.
  InputFile(const std::filesystem::path& directory, const CheckpointIndex& index, int rank);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Fills `to` from `offset` on; IoError when the file ends before.
  void read(std::span<std::byte> to, std::uint64_t offset) const;
  /// IoError unless the header is the one of which the index has the checksum.
  void check_header() const;
  /// Its path.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  const SavedFile& expected_;
  int descriptor_;
};

}  // namespace tessera::train::detail
