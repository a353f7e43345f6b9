// The index of a checkpoint: all that is known of it, but for the elements. It holds no boxes: which rank owns which
// part follows from the layouts (ownership.h), and each file names its own, with their checksums, in its header, of
// which the index has the checksum. So it stays small, and is checked as a whole by a checksum of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::detail {

/// The file of a rank.
struct SavedFile {
  std::uint64_t nbytes = 0;         ///< of the whole file
  std::uint64_t header_nbytes = 0;  ///< where the elements begin
  std::string header_hash;          ///< of these first bytes, which hold the checksums of all parts
};

/// See the head of this file.
struct CheckpointIndex {
  std::int64_t step = 0;                     ///< after which it was saved
  int world_size = 1;                        ///< ranks that wrote it
  std::int64_t written_at_seconds = 0;       ///< since 1970
  std::vector<SavedTensor> tensors;          ///< in the order of the state
  std::vector<SavedFile> files;              ///< by rank
  std::map<std::string, std::string> texts;  ///< of rank 0
};

/// The name of the index inside a checkpoint.
inline constexpr std::string_view kIndexName = "index.json";
/// The most ranks that an index lists.
inline constexpr std::int64_t kMostRanks = 1 << 24;
/// The longest index that is read.
inline constexpr std::uint64_t kMostIndexNbytes = std::uint64_t{1} << 30;

/// "rank-000003.safetensors".
std::string file_name(int rank);
/// "step-000000120".
std::string step_name(std::int64_t step);
/// Returns the step that a directory is named after, or nothing if `name` is not step-N.
std::optional<std::int64_t> step_of_name(std::string_view name);

/// The text of an index.
std::string write_index(const CheckpointIndex& index);
/// The index of a text, with everything checked that can be without the files; IoError names `path`.
CheckpointIndex read_index(std::string_view text, const std::string& path);
/// Returns the index of the checkpoint in this directory. Throws IoError if it cannot be read, or if the directory is
/// named after another step.
CheckpointIndex load_index(const std::filesystem::path& directory);
/// The same, for people.
CheckpointInfo info_of(const CheckpointIndex& index, const std::filesystem::path& directory);

}  // namespace tessera::train::detail
