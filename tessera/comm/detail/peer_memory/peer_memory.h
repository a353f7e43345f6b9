// How ranks that see each other's memory reach it. A transport says where a buffer is (a Place, which means something
// to all ranks) and finds a peer's place at an address of its own.
#pragma once

#include <cstddef>

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
  /// Whether `peer` is known to have died.
  [[nodiscard]] virtual bool is_dead(int peer) const = 0;
};

}  // namespace tessera::comm::detail
