// Strong integer types. StreamId, Rank and int do not convert to each other.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

/// An integer that identifies one kind of object. `Tag` names the kind and is never instantiated.
template <class Tag, class Rep>
class Id {
 public:
  /// The underlying integer type.
  using rep = Rep;
  /// Constructs the id 0.
  constexpr Id() = default;
  /// Constructs an id; explicit, so that integers do not convert implicitly.
  constexpr explicit Id(Rep value) : value_(value) {}
  /// Returns the integer.
  [[nodiscard]] constexpr Rep value() const { return value_; }
  /// Compares the integers.
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_ = 0;
};

/// Returns the integer as text.
template <class Tag, class Rep>
std::string to_string(Id<Tag, Rep> id) {
  return std::to_string(id.value());
}

/// World rank, in [0, world size).
using Rank = Id<struct RankTag, std::int32_t>;
/// A stream of one device: a dense slot. A new stream takes a slot only after all work of its previous owner has
/// completed, and the ticks continue, so (StreamId, Tick) identifies one point in time.
using StreamId = Id<struct StreamTag, std::uint32_t>;
/// A count of the events and stamped uses of a stream.
using Tick = Id<struct TickTag, std::uint64_t>;
/// A capture of this process; 0 means none.
using CaptureId = Id<struct CaptureTag, std::uint64_t>;
/// A node of a graph, unique and stable within that graph.
using NodeId = Id<struct NodeTag, std::uint64_t>;

}  // namespace tessera

/// Hash of ids for unordered containers.
template <class Tag, class Rep>
struct std::hash<tessera::Id<Tag, Rep>> {
  /// Returns the hash of the integer.
  std::size_t operator()(tessera::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>()(id.value()); }
};
