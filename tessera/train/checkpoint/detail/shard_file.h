// The file of one rank: a safetensors file of the shards that it owns. The header holds the indices and the checksum of
// each shard. Elements begin at a multiple of 4096 bytes.
//
//   | length | {"__metadata__": {"format", "step", "rank", "box of NAME", "xxh3 of NAME", ...}, NAME: ...} | elements |
//
// The length of a header does not depend on the checksums. Therefore elements are written and hashed first, and the
// header is written last, into the space reserved for it.
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

/// Planned contents of a file.
struct ShardPlan {
  std::vector<FileShard> pieces;    ///< Shards in order.
  std::uint64_t header_nbytes = 0;  ///< Space for the header.
  std::uint64_t nbytes = 0;         ///< Size of the file.
};

/// Returns the plan of the file of a rank.
ShardPlan plan_shard(const std::vector<SavedTensor>& tensors, const Ownership& ownership, std::int64_t step, int rank);
/// Returns its header with the checksums of the shards; header_nbytes long.
std::string shard_header(const std::vector<SavedTensor>& tensors, const ShardPlan& plan, std::int64_t step, int rank,
                         const std::vector<std::string>& hashes);

/// Injected write faults of a rank, for tests (RankContext::part).
struct WriteFaults {
  /// Called before each write with the file and the bytes written to it so far. Returns an errno to fail with, or 0.
  std::function<int(const std::string& path, std::uint64_t written)> before_write;
};

/// A file being written. Throws IoError with the file and a fix.
class OutputFile {
 public:
  /// Creates the file, which must not exist, or opens it again if `is_new` is false.
  explicit OutputFile(std::string path, bool is_new = true);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Reserves space, so that a full disk is detected before anything is written.
  void reserve(std::uint64_t nbytes);
  /// Writes all bytes at `offset` and starts to flush them.
  void write(std::span<const std::byte> bytes, std::uint64_t offset);
  /// Waits until all is on disk, and closes the file.
  void sync();

 private:
  void check(bool holds, const char* doing, int error) const;
  std::string path_;
  int descriptor_;
  std::uint64_t written_ = 0;
};

/// Writes the file of a rank from its elements, which are in memory in file order.
SavedFile write_shard(const std::string& path, const std::vector<SavedTensor>& tensors, const ShardPlan& plan,
                      std::int64_t step, int rank, std::span<const std::byte> elements);

/// Returns a fix for a write error: "; free space ...".
std::string way_out(int error);

}  // namespace tessera::train::detail
