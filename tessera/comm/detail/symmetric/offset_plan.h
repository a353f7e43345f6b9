// Where the buffers of a symmetric pool lie: a pure function of what the pool was asked for, so that ranks that ask for
// the same find the same without a word. Offsets run over the segments of the pool one after the other, and on into
// what is not mapped yet:
//
//   0          mapped()              end
//   | segment 0 | segment 1 | to come |...
//
// A piece lies within one segment. The lowest free piece that is long enough is taken; what fits nowhere is put at the
// end. grow() makes a segment of what is to come.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace tessera::comm::detail {

/// See the head of this file. Not thread-safe.
class OffsetPlan {
 public:
  /// Offsets and lengths are multiples of this.
  static constexpr std::uint64_t kUnit = 512;
  /// The longest piece.
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 46;

  /// Takes a piece of 1 to kMost bytes; returns where it begins.
  std::uint64_t allocate(std::uint64_t nbytes);
  /// Gives back a piece that was taken.
  void free(std::uint64_t offset, std::uint64_t nbytes);
  /// Bytes of all segments.
  [[nodiscard]] std::uint64_t mapped() const { return mapped_; }
  /// Bytes of pieces that are not mapped; 0: there are none.
  [[nodiscard]] std::uint64_t to_come() const { return end_ - mapped_; }
  /// A new segment of `nbytes`, at least to_come().
  void grow(std::uint64_t nbytes);

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes; never two that touch within one segment
  std::set<std::uint64_t> starts_;               // of segments
  std::uint64_t mapped_ = 0;
  std::uint64_t end_ = 0;  // behind the last piece, at least mapped_
};

}  // namespace tessera::comm::detail
