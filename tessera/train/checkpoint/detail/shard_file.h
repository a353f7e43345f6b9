// The file of one rank: a safetensors file of the parts that it owns. Its header says, for each, which indices of the
// tensor it is and the checksum of its bytes; elements begin at a multiple of 4096.
//
//   | length | {"__metadata__": {"format", "step", "rank", "box of NAME", "xxh3 of NAME", ...}, NAME: ...} | elements |
//
// A header is as long with one checksum as with another. So elements are written first, each hashed on its way, and the
// header last, into the room that was left for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/train/checkpoint/detail/hash.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::detail {

/// What a file is about to hold.
struct ShardPlan {
  std::vector<Piece> pieces;        ///< in order
  std::uint64_t header_nbytes = 0;  ///< room for the header
  std::uint64_t nbytes = 0;         ///< of the file
};

/// The plan of a rank's file.
ShardPlan plan_shard(const std::vector<SavedTensor>& tensors, const Ownership& ownership, std::int64_t step, int rank);
/// Its header, with the checksums of the pieces; header_nbytes long.
std::string shard_header(const std::vector<SavedTensor>& tensors, const ShardPlan& plan, std::int64_t step, int rank,
                         const std::vector<std::string>& hashes);

/// For tests: faults of a rank's writing. Hangs on the rank (RankContext::part).
struct WriteFaults {
  /// Asked before each write of a checkpoint's files with the file and the bytes written to it so far; returns an errno
  /// to fail with, or 0.
  std::function<int(const std::string& path, std::uint64_t written)> before_write;
};

/// A file that is being written. Errors are IoErrors that name the file and what can be done.
class OutputFile {
 public:
  /// Makes the file, which is not there yet, or opens it again with `is_new` false.
  explicit OutputFile(std::string path, bool is_new = true);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Sets room aside, so that a disk that is full says so before anything is written.
  void reserve(std::uint64_t nbytes);
  /// Writes all of the bytes at `offset` and starts to bring them to the disk.
  void write(std::span<const std::byte> bytes, std::uint64_t offset);
  /// Waits until all is on the disk, and closes.
  void sync();

 private:
  void check(bool holds, const char* doing, int error) const;
  std::string path_;
  int descriptor_;
  std::uint64_t written_ = 0;
};

/// Writes the file of a rank from its elements, which lie in memory as they will in the file.
SavedFile write_shard(const std::string& path, const std::vector<SavedTensor>& tensors, const ShardPlan& plan,
                      std::int64_t step, int rank, std::span<const std::byte> elements);

/// What can be done about an error of writing: "; free space ...".
std::string way_out(int error);

}  // namespace tessera::train::detail
