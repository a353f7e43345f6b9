// Every choice the allocator makes, in one place, with its reason. A Policy is plain data: `tessera memory replay` runs
// a log against any of them, and a snapshot carries the one in force.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::memory {

/// Blocks start at and are sized in multiples of this. Vector loads and every collective transport like 512 bytes, and
/// PyTorch's and the driver's own allocators give the same.
inline constexpr std::size_t kAlignment = 512;
/// Requests above this are refused as absurd before anything is searched: one line names the size.
inline constexpr std::size_t kMostNbytes = std::size_t{1} << 60;

/// How a block that another stream may still use is treated when memory is wanted.
enum class CrossStream : std::uint8_t {
  kWait,  ///< after covered blocks, before growing: the wanting stream waits on the device for the block's last use
  kGrow,  ///< never wait on the device: take more memory
};

/// What an allocator does where there is a choice.
struct TESSERA_API Policy {
  /// Whether segments grow by mapping (where the upstream can) or are fixed. Expandable: a freed neighbour is always
  /// usable, whatever the sizes were.
  bool expandable = true;
  /// Memory is mapped in multiples of this (and of the upstream's granularity): 2 MiB is what CUDA maps, and what a
  /// fixed segment of small blocks takes.
  std::size_t granule_nbytes = std::size_t{2} << 20;
  /// A request is mapped in pieces of a quarter of its size, rounded to a power of two, at least a granule and at most
  /// this: large pieces cost fewer driver calls, small ones can be given back and moved more often.
  std::size_t most_piece_nbytes = std::size_t{32} << 20;
  /// Cached memory of other heaps is moved rather than more mapped when it is at least this share of what is reserved:
  /// moving costs as much as mapping, and a heap that is nearly full would rob another only to be robbed back.
  double move_above = 0.03125;
  /// Fixed segments: requests up to 1 MiB share segments of one granule, those below 10 MiB segments of this size,
  /// larger ones get their own.
  std::size_t shared_segment_nbytes = std::size_t{20} << 20;
  /// A block is split when what remains is at least this.
  std::size_t least_remainder_nbytes = kAlignment;
  /// Round sizes up to one of this many steps between powers of two; 0: multiples of 512 only. Fewer sizes mean more
  /// exact fits and more rounding.
  std::uint32_t roundup_divisions = 0;
  /// Blocks that another stream may still use.
  CrossStream cross_stream = CrossStream::kWait;
  /// kWait: as long as no more than this share of what is reserved would be pending, memory grows rather than a stream
  /// waits. Streams that run side by side need some blocks twice; a host far ahead must not need every block 50 times.
  double pending_slack = 0.08;
  /// Most bytes to map; 0: what the upstream has. A request that would pass it goes through the retry ladder.
  std::size_t limit_nbytes = 0;
  /// Above this share of the limit (without one: of all that the upstream has), cached memory older than the mean is
  /// given back before more is mapped; 0: never.
  double collect_above = 0;
  /// Whether the ladder may wait on the host for streams so that pending and cached memory can be taken (never in
  /// capture). Without it a host far ahead of the device could see out-of-memory that waiting would have cured.
  bool may_synchronize = true;

  /// Fields by name, as text, for people and files.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> fields() const;
  /// Changes the field of this name ("granule_nbytes", "4MiB"); InvalidArgument names what there is and what is
  /// allowed.
  void set(const std::string& field, const std::string& value);
  /// "granule_nbytes=4MiB,cross_stream=grow": the default with these changes. TESSERA_MEMORY_POLICY is read this way.
  static Policy parse(const std::string& text);
  /// Refuses values that make no sense together.
  void check() const;
};

}  // namespace tessera::memory
