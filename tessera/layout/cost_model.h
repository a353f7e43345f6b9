// Cost of communication in microseconds. All costs of plans come from here. A step over
// several axes runs at the speed of the slowest axis:
//
//   launch + hops * latency + received bytes / bandwidth + local copies / copy bandwidth
//
// The byte count is that of the rank with the largest shard, so all ranks compute the same cost. n is the number of
// ranks in the group of the step; |a| and |b| are the largest shards before and after:
//
//                    hops        received                      copied
//   all-gather       n - 1       (n - 1) |a|                   |b|, unless (1)
//   all-to-all       n - 1       (n - 1) messages (2)          |a| to pack, unless (1) for the new split;
//                                                              |b| to unpack, unless (1) for the old split
//   reduce-scatter   n - 1       (n - 1) |b|                   |a| to pack, unless it is one dimension and (1)
//   all-reduce       2 (n - 1)   2 (n - 1) |a| / n             nothing
//   permute          1           |b|                           nothing
//   box exchange     peers (3)   |b| - kept (3)                the received bytes and |b|
//   slice, partition, zero-fill: nothing is received, |b| is copied
//
// (1) The dimension is the outermost with more than one element, and its splits are plain and divide it. The chunks are
//     then adjacent. (2) A message is |a| split by the new splits, padded to the largest chunk if not divisible.
// (3) Kept is a product over the dimensions: the new extent if the old list of splits is a prefix of the new list; the
//     remainder of the new extent after the n - 1 largest chunks if the new list is a prefix of the old one; 0 if the
//     lists diverge, since some rank then holds nothing of its new shard. Peers are the old chunks that intersect a new
//     one, minus its own if something is kept.
//
// Values are per link class or per axis name. Both can come from a file of measured values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/layout/mesh.h"

namespace tessera::layout {

/// Cost of one link class or axis.
struct LinkCost {
  double latency_us = 0;       ///< Latency of one hop.
  double gigabytes_per_s = 1;  ///< Bytes that one rank receives, in 10^9 bytes/s.
  /// Compares latency and bandwidth.
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// Parameters of the cost formulas. Plain data.
struct TESSERA_API CostModel {
  /// Time to start one step.
  double launch_us = 6.0;
  /// Bandwidth of copies on the device (slices, padding, packing). A byte that is read and written counts once.
  double copy_gigabytes_per_s = 1500;
  /// Time to start a copy.
  double copy_launch_us = 2.0;
  /// Costs by link class: kMemory, kNvlink, kPcie, kNetwork.
  LinkCost links[4] = {{1.0, 5}, {0.7, 300}, {1.2, 22}, {2.7, 45}};
  /// Costs of measured axes, by axis name.
  std::map<std::string, LinkCost> axes = {};

  /// Returns the measured cost of the axis, or the cost of its link if the axis has no entry in `axes`.
  [[nodiscard]] const LinkCost& of(const Axis& axis) const;
  /// Returns the time to start and make a copy of `nbytes` bytes.
  [[nodiscard]] double copy_us(double nbytes) const;

  /// Returns the parameters as human-readable text, one per line.
  [[nodiscard]] std::string text() const;
  /// Returns the parameters as JSON, which load() reads.
  [[nodiscard]] std::string json() const;
  /// Loads a file of json(). Omitted fields keep their defaults. Throws IoError if the
  /// file is unreadable, and InvalidArgument, which names the position, if a name is
  /// unknown, a time is negative or a bandwidth is not positive.
  static CostModel load(const std::string& path);
  /// Parses the JSON text. Errors name it `origin`.
  static CostModel parse(std::string_view json, const std::string& origin);
  /// Throws InvalidArgument if a time is negative or a bandwidth is not positive.
  void check() const;

  /// Compares all fields.
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace tessera::layout
