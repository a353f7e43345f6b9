// Writes a checkpoint from global tensors, one at a time, in one process, for any mesh: the files that the ranks of
// that mesh would have written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/ownership.h"
#include "tessera/train/checkpoint/detail/shard_file.h"

namespace tessera::train::detail {

/// Bytes that are hashed and then written while still in the cache.
inline constexpr std::size_t kChunkNbytes = std::size_t{1} << 20;

/// The files of a checkpoint in progress. Different tensors may be written concurrently.
class NewCheckpoint {
 public:
  /// Creates the files in the directory `aside`. The index must outlive this object.
  NewCheckpoint(const CheckpointIndex& index, std::filesystem::path aside);

  /// Returns the directory of the files. It may hold further files.
  [[nodiscard]] const std::filesystem::path& directory() const { return aside_; }
  /// Writes a tensor from its dense elements.
  void write(std::size_t tensor, std::span<const std::byte> elements);
  /// Writes a tensor of a checkpoint of one rank from chunks, in order. `chunk` returns `nbytes` bytes from `offset`
  /// on, valid until its next call.
  using Chunks = std::function<std::span<const std::byte>(std::uint64_t offset, std::size_t nbytes)>;
  void write_chunks(std::size_t tensor, const Chunks& chunk);
  /// Writes headers and syncs everything. Call it once, after all tensors.
  std::vector<SavedFile> finish();

 private:
  [[nodiscard]] std::string path_of(int rank) const;

  const CheckpointIndex& index_;
  std::filesystem::path aside_;
  Ownership ownership_;
  std::vector<ShardPlan> plans_;                                   // by rank
  std::vector<std::vector<std::string>> hashes_;                   // by rank, then shard
  std::vector<std::vector<std::pair<int, std::size_t>>> writers_;  // by tensor: rank and shard
};

/// Creates the checkpoint step-N in `directory`: calls `fill` to write all tensors to a temporary directory, then
/// renames it. After an error, nothing is left. `what` names the operator in errors. Throws InvalidArgument if the
/// checkpoint exists.
CheckpointInfo write_new_checkpoint(const std::string& what, const std::filesystem::path& directory,
                                    CheckpointIndex index, const std::function<void(NewCheckpoint&)>& fill);

}  // namespace tessera::train::detail
