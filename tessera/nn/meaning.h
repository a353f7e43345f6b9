// The meaning of each dimension of a tensor. A model names meanings, and the sharding table (sharding_table.h) maps
// them to axes of the mesh, so the model itself knows no mesh:
//
//   weight = parameter("weight", {hidden, width}, {.meaning = {"mlp", "embed"}});
//   x = constrain(x, {"batch", "sequence", "embed"});
//
// The empty name marks a dimension that is never sharded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::nn {

/// Meaning of one dimension.
struct DimMeaning {
  /// Names the meaning. Converts from text, so that meanings are written as {"mlp", "embed"}.
  DimMeaning(const char* meaning) : name(meaning) {}  // NOLINT(google-explicit-constructor)
  /// Names the meaning of a dimension whose shards hold complete groups of `elements` elements.
  DimMeaning(std::string meaning, std::int64_t elements) : name(std::move(meaning)), group(elements) {}

  std::string name;        ///< Row of the sharding table. Empty: not sharded.
  std::int64_t group = 1;  ///< Elements that stay together, such as the width of a head.
  /// Compares name and group.
  friend bool operator==(const DimMeaning&, const DimMeaning&) = default;
};

/// Meanings of all dimensions of a tensor, in their order. Empty: no dimension is sharded.
using Meaning = std::vector<DimMeaning>;

}  // namespace tessera::nn
