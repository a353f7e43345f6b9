// What moving bytes costs, in microseconds: the only place where plans are priced. A step over axes runs at the speed
// of its slowest axis:
//
//   launch + hops * latency + received bytes / bandwidth + local copies / copy bandwidth
//
// Bytes are what the rank with the largest part receives, so that every rank computes the same price. Hops, with n
// ranks in the step's group: all-gather, reduce-scatter, all-to-all n - 1; all-reduce 2 (n - 1); permute 1; a box
// exchange as many as there are peers. Numbers are by link class, or of one axis by its name; both come from a file
// where they were measured.
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
  /// One launch and a copy of this many bytes; 0 for none.
  [[nodiscard]] double copy_us(std::int64_t nbytes) const;

  /// The assumptions, a line each, for people.
  [[nodiscard]] std::string text() const;
  /// JSON of the same numbers, as load() reads it.
  [[nodiscard]] std::string json() const;
  /// A file of json(); what it does not name keeps its default. Unknown names, numbers that are not positive, a file
  /// that cannot be read are errors that say where.
  static CostModel load(const std::string& path);
  /// From the JSON text itself; `origin` names it in errors.
  static CostModel parse(std::string_view json, const std::string& origin);
  /// Refuses negative or absent speeds.
  void check() const;

  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace tessera::layout
