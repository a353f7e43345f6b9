// What moving bytes costs, in microseconds: the only place where plans are priced. A step over axes runs at the speed
// of its slowest axis:
//
//   launch + hops * latency + received bytes / bandwidth + local copies / copy bandwidth
//
// Bytes are what the rank with the largest part receives, so that every rank computes the same price. With n ranks in
// the step's group, |a| and |b| the largest parts before and after:
//
//                    hops        received                      copied
//   all-gather       n - 1       (n - 1) |a|                   |b|, unless (1)
//   all-to-all       n - 1       (n - 1) messages (2)          |a| to pack, unless (1) for the new cut;
//                                                              |b| to unpack, unless (1) for the old one
//   reduce-scatter   n - 1       (n - 1) |b|                   |a| to pack, unless it is one dimension and (1)
//   all-reduce       2 (n - 1)   2 (n - 1) |a| / n             nothing
//   permute          1           |b|                           nothing
//   box exchange     peers (3)   |b| - kept (3)                what is received, and |b|
//   slice, partition, zero-fill: nothing is received, |b| is copied
//
// (1) The dimension is the outermost of more than one element and its cuts are plain and divide it: pieces then lie one
//     after the other. (2) A message is |a| cut by the new cuts; what does not divide is padded to the largest piece.
// (3) Kept is a product over the dimensions: the new extent where the old list of cuts begins the new one; what n - 1
//     largest pieces leave of the new extent where it is the other way round; 0 where the lists go apart, since some
//     rank has nothing of its new part. Peers are the old pieces that a new one meets, less its own if something is
//     kept.
//
// Numbers are by link class, or of one axis by its name; both come from a file where they were measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/layout/mesh.h"

namespace tessera::layout {

/// One kind of link.
struct LinkCost {
  double latency_us = 0;       ///< a hop
  double gigabytes_per_s = 1;  ///< received by one rank; 10^9 bytes
  /// The same numbers.
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// See the head of this file. Plain data.
struct TESSERA_API CostModel {
  /// Starting one step.
  double launch_us = 6.0;
  /// Copies on the device: slices, pads, reshuffles. Reading and writing a byte counts once.
  double copy_gigabytes_per_s = 1500;
  /// Starting a copy.
  double copy_launch_us = 2.0;
  /// By link class: kMemory, kNvlink, kPcie, kNetwork.
  LinkCost links[4] = {{1.0, 5}, {0.7, 300}, {1.2, 22}, {2.7, 45}};
  /// Axes that were measured themselves, by name.
  std::map<std::string, LinkCost> axes = {};

  /// The cost of an axis: its own where there is one, else its link's.
  [[nodiscard]] const LinkCost& of(const Axis& axis) const;
  /// Starting a copy of this many bytes, and making it.
  [[nodiscard]] double copy_us(double nbytes) const;

  /// The assumptions, a line each, for people.
  [[nodiscard]] std::string text() const;
  /// JSON of the same numbers, as load() reads it.
  [[nodiscard]] std::string json() const;
  /// A file of json(); what it does not name keeps its default. Unknown names, negative times, speeds that are not
  /// above 0, a file that cannot be read are errors that say where.
  static CostModel load(const std::string& path);
  /// From the JSON text itself; `origin` names it in errors.
  static CostModel parse(std::string_view json, const std::string& origin);
  /// Refuses negative times, and speeds that are not above 0.
  void check() const;

  /// The same numbers.
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace tessera::layout
