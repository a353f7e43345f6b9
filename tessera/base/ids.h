// Strong integer types. A StreamId is not a Rank and neither is an int; mixing them up does not compile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

/// An integer that belongs to one kind of thing. `Tag` names the kind and is never instantiated.
template <class Tag, class Rep>
class Id {
 public:
  /// The integer type behind the id.
  using rep = Rep;
  /// Zero.
  constexpr Id() = default;
  /// Wraps a plain integer; explicit, so that no plain integer turns into an id unseen.
  constexpr explicit Id(Rep value) : value_(value) {}
  /// The plain integer.
  [[nodiscard]] constexpr Rep value() const { return value_; }
  /// Ids of one kind compare like their integers.
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_ = 0;
};

/// The plain integer as text.
template <class Tag, class Rep>
std::string to_string(Id<Tag, Rep> id) {
  return std::to_string(id.value());
}

/// A rank's place in its world, 0 to world size - 1.
using Rank = Id<struct RankTag, std::int32_t>;
/// A stream of one device: a dense slot. A slot is given to a new stream only once all work of its former owner has
/// completed, and its ticks go on counting, so that (StreamId, Tick) names one moment for ever.
using StreamId = Id<struct StreamTag, std::uint32_t>;
/// A point in a stream's own count of events and stamped uses.
using Tick = Id<struct TickTag, std::uint64_t>;
/// A capture of this process; 0 is none.
using CaptureId = Id<struct CaptureTag, std::uint64_t>;
/// A node of a graph, unique within that graph and stable while it lives.
using NodeId = Id<struct NodeTag, std::uint64_t>;

}  // namespace tessera

/// Ids of any kind can be keys of unordered containers.
template <class Tag, class Rep>
struct std::hash<tessera::Id<Tag, Rep>> {
  /// Hash of the plain integer.
  std::size_t operator()(tessera::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>()(id.value()); }
};
