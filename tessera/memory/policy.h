// All choices of the allocator, with their reasons. A Policy is plain data: `tessera memory replay` runs a log against
// any policy, and a snapshot holds the policy in force.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::memory {

/// Alignment and size unit of blocks. 512 bytes suit vector loads and every collective backend, and equal the alignment
/// of PyTorch and of the driver.
inline constexpr std::size_t kAlignment = 512;
/// Maximum size of a request. Larger requests are rejected immediately with an error of one line.
inline constexpr std::size_t kMaxNbytes = std::size_t{1} << 60;

/// Treatment of a block that another stream may still use, when memory is needed.
enum class CrossStream : std::uint8_t {
  /// After covered blocks and before growth, the requesting stream waits on the device for the last use of the block.
  kWait,
  kGrow,  ///< Never waits on the device; maps more memory.
};

/// Choices of an allocator.
struct TESSERA_API Policy {
  /// Segments grow by mapping, if the upstream supports it; otherwise they are fixed. In expandable segments, a freed
  /// neighbor is always usable, for any sizes.
  bool expandable = true;
  /// Memory is mapped in multiples of this and of the granularity of the upstream. 2 MiB is the granularity of CUDA and
  /// the size of a fixed segment of small blocks.
  std::size_t granule_nbytes = std::size_t{2} << 20;
  /// Maximum size of a mapped chunk. A request is mapped in chunks of a quarter of its size, rounded to a power of two,
  /// at least one granule. Large chunks need fewer driver calls; small ones can be released and moved more often.
  std::size_t max_piece_nbytes = std::size_t{32} << 20;
  /// Cached memory of other heaps is moved instead of mapping more if it is at least this fraction of the reserved
  /// memory. Moving costs as much as mapping, and nearly full heaps would take memory from each other repeatedly.
  double move_above = 0.03125;
  /// Fixed segments: requests up to 1 MiB share segments of one granule, and those below 10 MiB share segments of this
  /// size. Larger requests get separate segments.
  std::size_t shared_segment_nbytes = std::size_t{20} << 20;
  /// A block is split if the remainder has at least this size.
  std::size_t min_remainder_nbytes = kAlignment;
  /// Rounds sizes up to one of this many steps between powers of two. 0: multiples of 512 bytes only. Fewer sizes mean
  /// more exact fits and more rounding.
  std::uint32_t roundup_divisions = 0;
  /// Treatment of blocks that another stream may still use.
  CrossStream cross_stream = CrossStream::kWait;
  /// With kWait, memory grows instead of a stream waiting while at most this fraction of the reserved memory would be
  /// pending. Concurrent streams need some blocks twice, but a host far ahead must not need every block 50 times.
  double pending_slack = 0.08;
  /// Maximum of mapped bytes; 0: the capacity of the upstream. Requests beyond it enter the retry sequence.
  std::size_t limit_nbytes = 0;
  /// Above this fraction of the limit (without a limit, of the capacity), cached memory older than the mean is released
  /// before more is mapped. 0: never.
  double collect_above = 0;
  /// The retry sequence may wait on the host for streams, to use pending and cached memory (never in a capture).
  /// Otherwise, a host far ahead of the device could run out of memory although waiting would help.
  bool may_synchronize = true;

  /// Returns the fields by name, as text.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> fields() const;
  /// Sets a field by name ("granule_nbytes", "4MiB"). Throws InvalidArgument with the known fields or the allowed
  /// values.
  void set(const std::string& field, const std::string& value);
  /// Returns the default policy with changes: "granule_nbytes=4MiB,cross_stream=grow". TESSERA_MEMORY_POLICY has this
  /// format.
  static Policy parse(const std::string& text);
  /// Throws InvalidArgument if values are invalid or inconsistent.
  void check() const;
};

}  // namespace tessera::memory
