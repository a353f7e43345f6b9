// How ranks that see each other's memory reach it. A transport says where a buffer is (a Place, which means something
// to all ranks) and finds a peer's place at an address of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tessera/comm/detail/peer_memory/group_memory.h"
#include "tessera/comm/detail/peer_memory/waiting.h"

namespace tessera::comm::detail {

/// One rank's view of the memory of its group. Thread-safe.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// What they share.
  [[nodiscard]] virtual const GroupMemory& group() const = 0;
  /// How this rank waits.
  [[nodiscard]] virtual const Waiting& waiting() const = 0;
  /// Where a buffer of this rank is.
  [[nodiscard]] virtual Place place_of(const void* address, std::size_t nbytes) = 0;
  /// Where a reachable place of `peer` is for this rank.
  [[nodiscard]] virtual std::byte* reach(int peer, const Place& place) = 0;
  /// The rank in the world of the one at this place.
  [[nodiscard]] virtual int world_rank(int peer) const = 0;
  /// Whether `peer` is known to have died.
  [[nodiscard]] virtual bool is_dead(int peer) const = 0;
  /// What `peer` is to raise, and where: "all_gather of group 0-1".
  struct Wait {
    int peer;
    const std::atomic<std::uint64_t>& word;
    std::uint64_t least;
    const std::function<bool()>& is_over;  ///< whether the wait ends without it; any thread may ask
    std::string what;
  };
  /// Notes that this rank waits. The circle that it is part of then, of ranks that wait for each other; empty: none, or
  /// nobody knows. end_wait() must follow before the wait is over.
  [[nodiscard]] virtual std::string circle_of(const Wait& wait) {
    (void)wait;
    return {};
  }
  virtual void end_wait() {}
};

/// Looks for a circle while a rank waits, and lets go of what was noted.
class CircleLook {
 public:
  explicit CircleLook(PeerMemory& memory) : memory_(memory) {}
  ~CircleLook() {
    if (has_noted_) memory_.end_wait();
  }
  CircleLook(const CircleLook&) = delete;
  CircleLook& operator=(const CircleLook&) = delete;
  /// Whether the wait is part of a circle.
  bool finds(const PeerMemory::Wait& wait) {
    has_noted_ = true;
    circle_ = memory_.circle_of(wait);
    return !circle_.empty();
  }
  /// The words for it; empty: none was found.
  [[nodiscard]] std::string text() const {
    return circle_.empty() ? "" : "ranks wait for each other in a circle: " + circle_;
  }

 private:
  PeerMemory& memory_;
  std::string circle_;
  bool has_noted_ = false;
};

}  // namespace tessera::comm::detail
