// A checkpoint file open for reading. Its size is compared with the index first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tessera/train/checkpoint/detail/index.h"

namespace tessera::train::detail {

/// File of one rank. Move-only.
class InputFile {
 public:
  /// Throws IoError if the file is missing or its size differs from the index.
  InputFile(const std::filesystem::path& directory, const CheckpointIndex& index, int rank);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Fills `to` from `offset` on. Throws IoError if the file is too short.
  void read(std::span<std::byte> to, std::uint64_t offset) const;
  /// Throws IoError if the checksum of the header differs from the index.
  void check_header() const;
  /// Returns the path.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  const SavedFile& expected_;
  int descriptor_;
};

}  // namespace tessera::train::detail
