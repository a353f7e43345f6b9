// The index of a checkpoint: everything but the elements. It holds no boxes: the owner of each shard follows from the
// layouts (ownership.h), and the header of each file names its shards with their checksums. The index holds the
// checksums of the headers, so it stays small. A separate checksum covers the index.
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

/// File of one rank.
struct SavedFile {
  std::uint64_t nbytes = 0;         ///< Size of the file.
  std::uint64_t header_nbytes = 0;  ///< Offset of the elements.
  std::string header_hash;          ///< Checksum of the header, which holds the checksums of all shards.
};

/// Contents of index.json.
struct CheckpointIndex {
  std::int64_t step = 0;                     ///< Step after which it was saved.
  int world_size = 1;                        ///< Number of ranks that wrote it.
  std::int64_t written_at_seconds = 0;       ///< Seconds since 1970.
  std::vector<SavedTensor> tensors;          ///< Tensors in the order of the state.
  std::vector<SavedFile> files;              ///< Files by rank.
  std::map<std::string, std::string> texts;  ///< Metadata of rank 0.
};

/// File name of the index.
inline constexpr std::string_view kIndexName = "index.json";
/// Maximum number of ranks in an index.
inline constexpr std::int64_t kMaxRanks = 1 << 24;
/// Maximum size of an index.
inline constexpr std::uint64_t kMaxIndexNbytes = std::uint64_t{1} << 30;

/// Returns "rank-000003.safetensors".
std::string file_name(int rank);
/// Returns "step-000000120".
std::string step_name(std::int64_t step);
/// Returns the step that a directory is named after, or nothing if `name` is not step-N.
std::optional<std::int64_t> step_of_name(std::string_view name);

/// Returns the text of an index.
std::string write_index(const CheckpointIndex& index);
/// Parses an index and checks everything that needs no other file. Throws IoError with `path`.
CheckpointIndex read_index(std::string_view text, const std::string& path);
/// Returns the index of the checkpoint in this directory. Throws IoError if it cannot be read, or if the directory is
/// named after another step.
CheckpointIndex load_index(const std::filesystem::path& directory);
/// Returns the public description of an index.
CheckpointInfo info_of(const CheckpointIndex& index, const std::filesystem::path& directory);

}  // namespace tessera::train::detail
