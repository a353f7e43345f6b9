// The offsets of the buffers of a symmetric pool: a pure function of the requests to the pool, so that ranks with equal
// requests compute equal offsets without communication. Offsets are consecutive over the segments of the pool, and
// continue into memory that is not mapped yet:
//
//   0          mapped()              end
//   | segment 0 | segment 1 | to come |...
//
// A chunk lies within one segment. The lowest free chunk that is large enough is used; otherwise the chunk is appended
// at the end. grow() creates a segment for the memory to come.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace tessera::comm::detail {

/// The offsets of one pool. Not thread-safe.
class OffsetPlan {
 public:
  /// Unit of offsets and lengths.
  static constexpr std::uint64_t kUnit = 512;
  /// Maximum length of a chunk.
  static constexpr std::uint64_t kMax = std::uint64_t{1} << 46;

  /// Allocates a chunk of 1 to kMax bytes and returns its offset.
  std::uint64_t allocate(std::uint64_t nbytes);
  /// Frees a chunk.
  void free(std::uint64_t offset, std::uint64_t nbytes);
  /// Returns the size of all segments.
  [[nodiscard]] std::uint64_t mapped() const { return mapped_; }
  /// Returns the bytes that are allocated but not mapped.
  [[nodiscard]] std::uint64_t to_come() const { return end_ - mapped_; }
  /// Adds a segment of `nbytes`, at least to_come().
  void grow(std::uint64_t nbytes);

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes; adjacent chunks of a segment are merged
  std::set<std::uint64_t> starts_;               // first offset of each segment
  std::uint64_t mapped_ = 0;
  std::uint64_t end_ = 0;  // end of the last chunk, at least mapped_
};

}  // namespace tessera::comm::detail
